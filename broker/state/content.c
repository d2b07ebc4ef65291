/*
 * The rows of content.db:
 *
 *   entries  seq, until (the next change of that resource; NULL: none yet),
 *            digest (NULL: missing, or thinned); event time, loc and type,
 *            escaped (loc NULL: thinned, or of an earlier version of this
 *            program)
 *   current  key (resource_key of the loc), seq: of existing resources
 *   files    digest, length, n (entries that refer to it; 0: to be deleted)
 *   missing  seq, due (NULL: never), tries, loc, hash, length
 *   gone     digests of the last 100,000 files that lost their rows
 *   state    its only row: epoch, seq, digest, and struct content_at
 *
 * Every change is one transaction, which is on the disk when the function
 * returns.
 */
#include "broker/state/content.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/options.h"
#include "broker/base/metrics.h"
#include "proto/resourcesync/document_write.h"

/* The limits of gathering for one commit, as of a state (resources.c), but each
 * entry may ask the disk for its file. */
#define GATHER_ENTRIES 16000
#define GATHER_BYTES   ((size_t)4 << 20)

/* Rows that one commit forgets. */
#define FORGET_ROWS 4000

/* Former versions that one commit looks at, and thins. */
#define THIN_ROWS 1000

/* Facts that one transaction settles: each may have to wait for its file. */
#define SETTLE_FACTS 256

static const char *const steps[] = {
    "CREATE TABLE entries("
    " seq INTEGER PRIMARY KEY, until INTEGER, digest BLOB);"
    "CREATE INDEX overtaken ON entries(seq) WHERE until IS NOT NULL;"
    "CREATE TABLE current("
    " key BLOB PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE files("
    " digest BLOB PRIMARY KEY, length INTEGER NOT NULL, n INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX loose ON files(digest) WHERE n=0;"
    "CREATE TABLE missing("
    " seq INTEGER PRIMARY KEY, due INTEGER, tries INTEGER NOT NULL, loc BLOB,"
    " hash TEXT, length INTEGER);"
    "CREATE INDEX due ON missing(due) WHERE due IS NOT NULL;"
    "CREATE TABLE state("
    " id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL,"
    " digest BLOB, \"from\" INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " missing INTEGER NOT NULL, current INTEGER NOT NULL,"
    " current_missing INTEGER NOT NULL, files INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);",

    "ALTER TABLE state ADD COLUMN fact INTEGER NOT NULL DEFAULT 0;",

    "ALTER TABLE entries ADD COLUMN us INTEGER; ALTER TABLE entries"
    " ADD COLUMN loc TEXT; ALTER TABLE entries ADD COLUMN type TEXT;"
    "CREATE INDEX versions ON entries(loc) WHERE digest IS NOT NULL;"
    "CREATE INDEX bytes ON entries(digest) WHERE digest IS NOT NULL;"
    "CREATE TABLE gone(id INTEGER PRIMARY KEY, digest BLOB UNIQUE);"
    "CREATE TRIGGER going AFTER INSERT ON files WHEN new.n=0 BEGIN"
    " INSERT OR REPLACE INTO gone(digest) VALUES(new.digest);"
    " DELETE FROM gone WHERE id<=(SELECT max(id) FROM gone)-100000; END;",
};

const struct db_kind content_kind = {
    .mode = DB_SMALL,
    DB_STEPS(steps),
    .opening = "PRAGMA cache_size=-4096", /* KiB */
};

#define MISSING_COLUMNS \
    "seq, due, tries, loc, hash, ifnull(length, -1) FROM missing"

/* Two queries: all entries of a fold have the same `due`, and the first query
 * enters the index behind the given seq. */
const char content_next_due[] =
    "SELECT * FROM (SELECT " MISSING_COLUMNS
    " WHERE due=?1 AND due<=?3 AND seq>?2 ORDER BY seq LIMIT 1)"
    " UNION ALL SELECT * FROM (SELECT " MISSING_COLUMNS
    " WHERE due>?1 AND due<=?3 ORDER BY due, seq LIMIT 1) LIMIT 1";

/* An entry that is being folded. */
struct gathered {
    struct keyed entry;
    uint64_t before; /* the entry that it overtakes; 0: none */
    uint64_t until;  /* the entry that overtakes it; 0: none */
    bool is_deleted;
    struct digest sha256;
    bool has_sha256;
    uint64_t length;        /* or LENGTH_NONE */
    int64_t us;             /* the event time */
    size_t loc, loc_size;   /* in the texts: escaped */
    size_t type, type_size; /* likewise */
    size_t hash, hash_size; /* size 0: the source stated none */
};

struct content {
    struct fold_db fold;
    struct content_at at;   /* as of the last commit */
    struct content_at next; /* as the change under way makes it */
    struct problem why;     /* of that change */
    struct buf lent;        /* for content_missing */
    uint64_t shared_from;   /* facts decide from that entry on; 0: never */
    uint64_t thinned;       /* by the change under way */
    uint64_t most;          /* that it may thin */
};

/* Changes */

/* Sets when the first missing entry is due. */
static enum status
first_due(struct content *c, struct content_at *at, struct problem *why)
{
    at->due_us = CONTENT_NEVER;
    return db_find(&c->fold.db, NULL, why, NULL,
                   "SELECT due FROM missing WHERE due IS NOT NULL"
                   " ORDER BY due LIMIT 1",
                   DB_VALUES(), DB_INTO(&at->due_us));
}

static enum status
begin_change(struct content *c)
{
    c->next = c->at;
    c->thinned = 0;
    c->most = UINT64_MAX;
    c->why = (struct problem){""};
    return db_begin(&c->fold.db, &c->why);
}

static enum status
write_state(struct content *c, const struct fold_mark *mark)
{
    const struct content_at *at = &c->next;

    return DB_DO(&c->fold.db, NULL, &c->why,
                 "INSERT OR REPLACE INTO state(id, epoch, seq, digest,"
                 " \"from\", rows, missing, current, current_missing, files,"
                 " bytes, fact) VALUES(1,?,?,?,?,?,?,?,?,?,?,?)",
                 c->fold.epoch, at->seq,
                 mark->has_digest ? &mark->digest : NULL, at->from, at->rows,
                 at->missing, at->current, at->current_missing, at->files,
                 at->bytes, at->fact);
}

/* Ends the transaction of begin_change: commits all changes, and the row of
 * `state`, if `rc` is STATUS_OK; else none. The content then is at `mark`. */
static enum status
commit_change(struct content *c, enum status rc, const struct fold_mark *mark)
{
    if (!rc && memcmp(&c->next, &c->at, sizeof(c->at)) != 0)
        rc = write_state(c, mark);
    if (!rc)
        rc = first_due(c, &c->next, &c->why);
    rc = db_end(&c->fold.db, rc, &c->why);
    if (rc)
        return rc;
    metrics_add(METRIC_CONTENT_THINNED, (int64_t)c->thinned);
    c->at = c->next;
    c->fold.at = *mark;
    return STATUS_OK;
}

/* The same of a change that folds nothing. */
static enum status
end_change(struct content *c, enum status rc, struct problem *why)
{
    rc = commit_change(c, rc, &c->fold.at);
    return fold_db_settle(&c->fold, rc, &c->why, why);
}

/* Files */

/* Reads a file's row: *n entries have it (0: none, or no row), and it has
 * *length bytes. */
static enum status
find_file(struct content *c, const struct digest *digest, uint64_t *n,
          uint64_t *length, struct problem *why)
{
    *n = *length = 0;
    return db_find(&c->fold.db, NULL, why, NULL,
                   "SELECT length, n FROM files WHERE digest=?",
                   DB_VALUES(digest), DB_INTO(length, n));
}

/* Looks for the file with that digest and stated length (or LENGTH_NONE).
 * *is_other: its length differs. STATUS_NOT_FOUND. If rows refer to the file it
 * exists; else this looks on the disk. */
static enum status
look_for_file(struct content *c, const struct digest *digest, uint64_t stated,
              uint64_t *length, bool *is_other, struct problem *why)
{
    uint64_t n;
    enum status rc = find_file(c, digest, &n, length, why);

    *is_other = false;
    if (!rc && n == 0)
        rc = content_file_look(c->fold.dir, digest, length, why);
    if (!rc && stated != LENGTH_NONE && stated != *length) {
        *is_other = true;
        rc = STATUS_NOT_FOUND;
    }
    return rc;
}

/* Counts one more (1) or one less (-1) entry that refers to the file. */
static enum status
count_file(struct content *c, const struct digest *digest, uint64_t length,
           int change)
{
    uint64_t n, before;
    enum status rc = find_file(c, digest, &n, &before, &c->why);

    if (!rc && n == 0 && change < 0) {
        c->fold.db.is_damaged = true;
        rc = problem(&c->why, STATUS_IO, CONTENT_FILE " lacks a row");
    }
    if (rc)
        return rc;
    if (n > 0)
        length = before;
    if (n == 0) {
        c->next.files++;
        c->next.bytes += length;
    } else if (n == 1 && change < 0) {
        c->next.files--;
        c->next.bytes -= length;
        c->next.is_loose = true;
    }
    return DB_DO(&c->fold.db, NULL, &c->why,
                 "INSERT OR REPLACE INTO files(digest, length, n)"
                 " VALUES(?,?,?)",
                 digest, length, n + (uint64_t)change);
}

#define VERSIONS                                                     \
    " FROM entries WHERE loc=(SELECT loc FROM entries WHERE seq=?1)" \
    " AND digest IS NOT NULL ORDER BY seq "

/* The newest version behind the ?2 newest ones; and the oldest one, if the next
 * one was ?2 hours old when the newest one came. */
static const char beyond[] =
    "SELECT seq, digest" VERSIONS "DESC LIMIT 1 OFFSET ?2";
static const char too_old[] =
    "SELECT seq, digest" VERSIONS "LIMIT ifnull((SELECT us" VERSIONS
    "LIMIT 1 OFFSET 1)<=(SELECT us" VERSIONS "DESC LIMIT 1)-?2*3600000000, 0)";

/* The bytes of the entry `seq` have come, if `rc` is STATUS_OK: thins other
 * versions of its resource. */
static enum status
thin_versions(struct content *c, uint64_t seq, enum status rc)
{
    uint64_t old, limit = c->fold.versions;
    bool is_more = limit > 0 && limit != OPTION_KEEP_ALL;
    struct digest digest;

    while (!rc && is_more && c->thinned < c->most) {
        rc = db_find(&c->fold.db, NULL, &c->why, &is_more,
                     limit < OPTION_KEEP_AGE ? beyond : too_old,
                     DB_VALUES(seq, limit % OPTION_KEEP_AGE),
                     DB_INTO(&old, &digest));
        if (!rc && is_more)
            rc = count_file(c, &digest, 0, -1);
        if (!rc && is_more)
            rc = DB_DO(&c->fold.db, NULL, &c->why,
                       "UPDATE entries SET digest=NULL, loc=NULL WHERE seq=?",
                       old);
        c->thinned += !rc && is_more;
    }
    return rc;
}

/*
 * Folding: makes rows of entries.
 *
 * As in resources.c the rows are sorted before they are written, so that
 * each page is read and written once: by key, to find the entry that each one
 * overtakes; by overtaken entry; and by seq, to be inserted.
 */

static int
by_seq(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;

    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int
by_before(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;

    return a->before < b->before ? -1 : a->before > b->before;
}

/* By key: sets `until` of each entry, and `before` of the first one of each
 * resource, whose current entry becomes the last one. */
static enum status
chain_entries(struct content *c)
{
    struct gathered *all = c->fold.rows;
    size_t n = c->fold.n;
    enum status rc = STATUS_OK;

    qsort(all, n, sizeof(*all), keyed_compare);
    for (size_t i = 0, last; !rc && i < n; i = last + 1) {
        const struct db_value key =
            db_bytes(&all[i].entry.key, sizeof(all[i].entry.key));

        rc = db_find(&c->fold.db, NULL, &c->why, NULL,
                     "SELECT seq FROM current WHERE key=?", DB_VALUES(key),
                     DB_INTO(&all[i].before));
        for (last = i; last + 1 < n &&
                       !memcmp(&all[last + 1].entry.key, &all[i].entry.key,
                               sizeof(all[i].entry.key));
             last++)
            all[last].until = all[last + 1].entry.seq;
        if (rc)
            break;
        c->next.current -= all[i].before > 0;
        c->next.current += !all[last].is_deleted;
        if (!all[last].is_deleted)
            rc = DB_DO(&c->fold.db, NULL, &c->why,
                       "INSERT OR REPLACE INTO current(key, seq) VALUES(?,?)",
                       key, all[last].entry.seq);
        else if (all[i].before > 0)
            rc = DB_DO(&c->fold.db, NULL, &c->why,
                       "DELETE FROM current WHERE key=?", key);
    }
    return rc;
}

/* Inserts the row of an entry, and, if its bytes are not there, that of a
 * missing one. Without a hash, or with an impossible one, these are never
 * fetched: nothing could prove them. */
static enum status
insert_entry(struct content *c, const struct gathered *g, int64_t now_us)
{
    const char *texts = c->fold.texts.data;
    bool is_other = false, is_there;
    uint64_t length;
    enum status rc =
        g->has_sha256 && (c->shared_from == 0 || g->entry.seq < c->shared_from)
            ? look_for_file(c, &g->sha256, g->length, &length, &is_other,
                            &c->why)
            : STATUS_NOT_FOUND;

    if (rc && rc != STATUS_NOT_FOUND)
        return rc;
    is_there = !rc;
    c->next.rows++;
    rc = DB_DO(&c->fold.db, NULL, &c->why,
               "INSERT INTO entries(seq, until, digest, us, loc, type)"
               " VALUES(?,nullif(?,0),?,?,?,?)",
               g->entry.seq, g->until, is_there ? &g->sha256 : NULL, g->us,
               ((struct slice){texts + g->loc, g->loc_size}),
               ((struct slice){texts + g->type, g->type_size}));
    if (rc)
        return rc;
    if (is_there)
        return thin_versions(c, g->entry.seq,
                             count_file(c, &g->sha256, length, 1));
    c->next.missing++;
    c->next.current_missing += g->until == 0;
    if (is_other || g->hash_size == 0)
        return DB_DO(&c->fold.db, NULL, &c->why,
                     "INSERT INTO missing(seq, tries) VALUES(?,0)",
                     g->entry.seq);
    return DB_DO(&c->fold.db, NULL, &c->why,
                 "INSERT INTO missing(seq, due, tries, loc, hash, length)"
                 " VALUES(?,?,0,?,?,nullif(?,-1))",
                 g->entry.seq, now_us, db_bytes(texts + g->loc, g->loc_size),
                 ((struct slice){texts + g->hash, g->hash_size}), g->length);
}

static enum status
commit_entries(struct fold_db *f, struct problem *why)
{
    struct content *c = content_of(f);
    int64_t now_us = clock_now_us(); /* entries to be fetched are due then */
    struct gathered *all = f->rows;
    bool is_missing = false;
    enum status rc = begin_change(c);

    c->next.seq = f->gathered.seq;
    if (!rc)
        rc = chain_entries(c);
    /* Rows of earlier folds that are overtaken now. */
    if (!rc)
        qsort(all, f->n, sizeof(*all), by_before);
    for (size_t i = 0; !rc && i < f->n; i++) {
        const struct gathered *g = &all[i];

        if (g->before == 0)
            continue;
        rc = db_find(&f->db, NULL, &c->why, &is_missing,
                     "SELECT 1 FROM missing WHERE seq=?", DB_VALUES(g->before),
                     DB_INTO());
        c->next.current_missing -= is_missing;
        if (!rc)
            rc = DB_DO(&f->db, NULL, &c->why,
                       "UPDATE entries SET until=? WHERE seq=?", g->entry.seq,
                       g->before);
    }
    qsort(all, f->n, sizeof(*all), by_seq);
    for (size_t i = 0; !rc && i < f->n; i++)
        if (!all[i].is_deleted)
            rc = insert_entry(c, &all[i], now_us);
    rc = commit_change(c, rc, &f->gathered);
    *why = c->why;
    return rc;
}

/* Gathering */

static enum status
gather_content(struct fold_db *f, struct slice fragment, uint32_t stamp,
               uint64_t seq)
{
    struct slice loc = fragment_loc(fragment), hash, type, tags;
    struct gathered *g = f->rows;

    if (!ONE_MORE(g, &f->capacity, f->n))
        return STATUS_MEMORY;
    f->rows = g;
    g += f->n;
    memset(g, 0, sizeof(*g));
    resource_key(&g->entry.key, loc);
    g->entry.seq = seq;
    g->is_deleted = fragment_kind(fragment.data, stamp) == CHANGE_DELETED;
    if (!g->is_deleted) {
        fragment_bytes(fragment, stamp, &hash, &g->length);
        g->has_sha256 = hash_find_sha256(hash, &g->sha256);
        g->loc = f->texts.size;
        g->loc_size = loc.size;
        buf_add_slice(&f->texts, loc);
        g->hash = f->texts.size;
        g->hash_size = hash.size;
        buf_add_slice(&f->texts, hash);
        fragment_labels(fragment, stamp, &type, &tags);
        g->us = fragment_time(fragment.data, stamp);
        g->type = f->texts.size;
        g->type_size = type.size;
        buf_add_slice(&f->texts, type);
    }
    if (f->texts.failed)
        return STATUS_MEMORY;
    f->n++;
    return STATUS_OK;
}

/* Life */

static enum status
read_state(struct fold_db *f, struct problem *why)
{
    struct content *c = content_of(f);
    struct content_at *at = &c->at;
    enum status rc;

    *at = (struct content_at){0};
    rc = db_find(&f->db, NULL, why, NULL,
                 "SELECT epoch, digest, length(digest)=32, seq, \"from\", rows,"
                 " missing, current, current_missing, files, bytes, fact"
                 " FROM state",
                 DB_VALUES(),
                 DB_INTO(&f->epoch, &f->at.digest, &f->at.has_digest, &at->seq,
                         &at->from, &at->rows, &at->missing, &at->current,
                         &at->current_missing, &at->files, &at->bytes,
                         &at->fact));
    f->at.seq = at->seq;
    return rc ? rc : first_due(c, at, why);
}

static enum status
begin_file(struct fold_db *f, struct problem *why)
{
    struct content *c = content_of(f);
    enum status rc = begin_change(c);

    c->next.seq = c->next.from = f->at.seq;
    if (!rc)
        rc = write_state(c, &f->at);
    rc = commit_change(c, rc, &f->at);
    if (rc && why)
        *why = c->why;
    return rc;
}

static void
release_lent(struct fold_db *f)
{
    struct content *c = content_of(f);

    buf_fini(&c->lent);
    buf_init(&c->lent, FRAGMENT_MAX);
}

const struct fold_kind content_folding = {
    .db = &content_kind,
    .file = CONTENT_FILE,
    .begins_anew = "the content of a set begins anew",
    .is_damaged = "the content of a set is damaged, and will begin anew",
    .size = sizeof(struct content),
    .max_entries = GATHER_ENTRIES,
    .max_bytes = GATHER_BYTES,
    .read = read_state,
    .begin = begin_file,
    .gather = gather_content,
    .commit = commit_entries,
    .release = release_lent,
};

const struct content_at *
content_at(const struct content *c)
{
    return &c->at;
}

/* Queries */

enum status
content_find(struct content *c, uint64_t seq, struct content_bytes *bytes,
             struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(&c->fold.db, NULL, why, &is_there,
                "SELECT digest, length(digest)=32, (SELECT length FROM files"
                " WHERE digest=entries.digest) FROM entries WHERE seq=?",
                DB_VALUES(seq),
                DB_INTO(&bytes->digest, &bytes->is_there, &bytes->length));

    return rc || is_there ? rc
                          : problem(why, STATUS_NOT_FOUND,
                                    "of that entry nothing is known");
}

enum status
content_is_complete(struct content *c, uint64_t after, uint64_t last,
                    bool *is_complete, bool *is_lacking, struct problem *why)
{
    bool is_missing = true;
    enum status rc = STATUS_OK;

    *is_complete = false;
    *is_lacking = true;
    if (after < c->at.from || last > c->at.seq)
        return STATUS_OK;
    rc = db_find(&c->fold.db, NULL, why, &is_missing,
                 "SELECT 1 FROM entries WHERE seq>? AND seq<=?"
                 " AND digest IS NULL LIMIT 1",
                 DB_VALUES(after, last), DB_INTO());
    if (!rc && is_missing)
        return db_find(&c->fold.db, NULL, why, is_lacking,
                       "SELECT 1 FROM entries WHERE seq>? AND seq<=?"
                       " AND digest IS NULL AND NOT EXISTS(SELECT 1 FROM"
                       " missing m WHERE m.seq=entries.seq AND due IS NOT NULL)"
                       " LIMIT 1",
                       DB_VALUES(after, last), DB_INTO());
    *is_complete = !rc;
    return rc;
}

bool
content_has_all(const struct content *c, const struct resources_at *state)
{
    const struct content_at *at = &c->at;

    /* Each current row is of a resource of the state at that seq. So if there
     * are as many as resources, all have one. */
    return at->seq == state->seq && at->current == state->n &&
           at->current_missing == 0;
}

enum status
content_refers_to(struct content *c, const struct digest *digest,
                  bool *is_referred, struct problem *why)
{
    uint64_t n = 0, length;
    enum status rc = find_file(c, digest, &n, &length, why);

    *is_referred = n > 0;
    return rc;
}

/* Missing content */

static enum status
delete_missing(struct content *c, uint64_t seq)
{
    return DB_DO(&c->fold.db, NULL, &c->why, "DELETE FROM missing WHERE seq=?",
                 seq);
}

/* Brings one fact into the rows. */
static enum status
note_fact(struct content *c, const struct content_fact *fact)
{
    bool is_kept = fact->due_us <= CONTENT_KEPT, was_current = false;
    enum status rc =
        is_kept ? delete_missing(c, fact->seq)
                : DB_DO(&c->fold.db, NULL, &c->why,
                        "UPDATE missing SET due=nullif(?,?), tries=tries+1"
                        " WHERE seq=?",
                        fact->due_us, CONTENT_NEVER, fact->seq);

    if (!rc && sqlite3_changes(c->fold.db.handle) == 0)
        rc = problem(&c->why, STATUS_NOT_FOUND, "the entry is not missing");
    if (rc || !is_kept)
        return rc;
    rc = db_find(&c->fold.db, NULL, &c->why, NULL,
                 "UPDATE entries SET digest=? WHERE seq=?"
                 " RETURNING until IS NULL",
                 DB_VALUES(&fact->digest, fact->seq), DB_INTO(&was_current));
    c->next.missing--;
    c->next.current_missing -= was_current;
    if (!rc)
        rc = count_file(c, &fact->digest, fact->length, 1);
    return thin_versions(c, fact->seq, rc);
}

enum status
content_note(struct content *c, const struct content_fact *fact,
             struct problem *why)
{
    enum status rc = begin_change(c);

    if (!rc)
        rc = note_fact(c, fact);
    return end_change(c, rc, why);
}

/* Facts of a cluster */

/* Brings the bytes of a fact into the store. */
static enum status
place_bytes(struct content *c, const struct content_fact *fact,
            const char *arriving, struct slice bytes)
{
    char hash[DIGEST_TEXT_SIZE];
    struct arriving a = {NULL};
    enum status rc;

    digest_write(hash, &fact->digest);
    rc = arriving_begin(&a, arriving, (struct slice){hash, sizeof(hash)},
                        fact->length, &c->why);
    if (!rc)
        rc = arriving_add(&a, bytes, &c->why);
    if (!rc)
        rc = arriving_end(&a, &c->why);
    if (!rc)
        rc = content_file_place(c->fold.dir, &a, &c->why);
    arriving_abandon(&a);
    return rc;
}

/* A row that is kept or forgotten stays as it is. So does a missing one if its
 * file was deleted, because the set kept none for a while. */
static enum status
settle_fact(struct content *c, const struct content_fact *fact,
            const char *arriving, struct slice bytes,
            struct content_touched *touched)
{
    bool is_kept = fact->due_us <= CONTENT_KEPT;
    bool is_in_bucket = fact->due_us == CONTENT_IN_BUCKET;
    bool has_bytes = bytes.size == fact->length && !is_in_bucket;
    uint64_t length;
    enum status rc = STATUS_OK;

    if (is_kept && !is_in_bucket && !has_bytes)
        rc = content_file_look(c->fold.dir, &fact->digest, &length, &c->why);
    if (!rc)
        rc = note_fact(c, fact);
    if (!rc && is_in_bucket)
        rc = content_file_store(c->fold.dir, &fact->digest, fact->length, true,
                                &c->why);
    if (!rc && is_kept && has_bytes) {
        rc = place_bytes(c, fact, arriving, bytes);
        content_touch(touched, &fact->digest);
    }
    c->next.fact = fact->id;
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

enum status
content_settle(struct content *c, struct log *log, struct log_set *set,
               uint64_t from, const char *arriving, bool *is_more,
               struct problem *why)
{
    struct content_fact fact = {.id = c->at.fact};
    struct content_touched touched = {{0}};
    struct buf bytes = {.max = CONTENT_POST_MAX};
    unsigned n = 0;
    enum status rc = begin_change(c);

    c->shared_from = from;
    while (!rc && n++ < SETTLE_FACTS) {
        rc = log_fact(log, set, &fact, &bytes, &c->why);
        if (!rc && fact.seq > c->at.seq) /* its entry is not folded */
            rc = STATUS_NOT_FOUND;
        if (!rc)
            rc = settle_fact(c, &fact, arriving, buf_slice(&bytes), &touched);
    }
    *is_more = !rc;
    if (!rc || rc == STATUS_NOT_FOUND)
        rc = content_files_sync(c->fold.dir, &touched, &c->why);
    buf_fini(&bytes);
    return end_change(c, rc, why);
}

enum status
content_missing(struct content *c, int64_t now_us, struct content_missing *m,
                struct problem *why)
{
    struct db_rows rows = DB_SELECT(&c->fold.db, NULL, why, content_next_due,
                                    m->due_us, m->seq, now_us);
    struct slice loc, hash;
    struct content_fact fact;
    struct digest digest;
    uint64_t length;
    size_t loc_size;
    bool is_hopeless = false;
    enum status rc;

    m->is_settled = false;
    if (DB_NEXT(&rows, &m->seq, &m->due_us, &m->tries, &loc, &hash,
                &m->length)) {
        /* The row is lent only for a moment. */
        buf_clear(&c->lent);
        xml_unescape(&c->lent, loc);
        loc_size = c->lent.size;
        buf_add_slice(&c->lent, hash);
        m->loc = (struct slice){c->lent.data, loc_size};
        m->hash = (struct slice){c->lent.data + loc_size, hash.size};
        if (c->lent.failed)
            rows.rc = problem_memory(why);
    } else if (!rows.rc) {
        rows.rc =
            problem(why, STATUS_NOT_FOUND, "nothing is to be fetched now");
    }
    rc = db_rows_end(&rows);
    if (rc || c->shared_from > 0 || !hash_find_sha256(m->hash, &digest))
        return rc;
    /* The bytes may have come for another entry. */
    rc = look_for_file(c, &digest, m->length, &length, &is_hopeless, why);
    fact = (struct content_fact){.seq = m->seq,
                                 .due_us = is_hopeless ? CONTENT_NEVER : 0,
                                 .digest = digest,
                                 .length = length};
    if (!rc || is_hopeless)
        rc = content_note(c, &fact, why);
    m->is_settled = !rc;
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* Forgetting */

struct going {
    uint64_t seq;
    struct digest digest;
    bool has_digest;
};

enum status
content_forget(struct content *c, uint64_t earliest, bool *is_more,
               struct problem *why)
{
    struct going *going = memory_room(FORGET_ROWS * sizeof(*going));
    struct db_rows rows;
    size_t n = 0;
    enum status rc;

    if (!going)
        return problem_memory(why);
    rc = begin_change(c);
    if (!rc) {
        /* Reads the rows to delete before anything is written. */
        rows = DB_SELECT(&c->fold.db, NULL, &c->why,
                         "SELECT seq, digest, length(digest)=32 FROM entries"
                         " INDEXED BY overtaken WHERE seq<=? AND until IS NOT"
                         " NULL ORDER BY seq LIMIT ?",
                         earliest, FORGET_ROWS);
        while (DB_NEXT(&rows, &going[n].seq, &going[n].digest,
                       &going[n].has_digest))
            n++;
        rc = db_rows_end(&rows);
    }
    for (size_t i = 0; !rc && i < n; i++) {
        c->next.rows--;
        rc = DB_DO(&c->fold.db, NULL, &c->why,
                   "DELETE FROM entries WHERE seq=?", going[i].seq);
        if (!rc)
            rc = going[i].has_digest ? count_file(c, &going[i].digest, 0, -1)
                                     : delete_missing(c, going[i].seq);
        if (!going[i].has_digest) /* else it was thinned */
            c->next.missing -= (uint64_t)sqlite3_changes(c->fold.db.handle);
    }
    free(going);
    *is_more = n == FORGET_ROWS;
    if (c->next.from < earliest)
        c->next.from = earliest;
    return end_change(c, rc, why);
}

enum status
content_thin(struct content *c, uint64_t *after, struct problem *why)
{
    uint64_t seqs[THIN_ROWS];
    struct db_rows rows;
    size_t n = 0, i = 0;
    enum status rc = begin_change(c);

    c->most = THIN_ROWS;
    if (!rc) {
        rows = DB_SELECT(&c->fold.db, NULL, &c->why,
                         "SELECT seq FROM entries INDEXED BY overtaken"
                         " WHERE seq>? AND until IS NOT NULL ORDER BY seq"
                         " LIMIT ?",
                         *after, THIN_ROWS);
        while (DB_NEXT(&rows, &seqs[n]))
            n++;
        rc = db_rows_end(&rows);
    }
    for (; !rc && i < n && c->thinned < c->most; i++)
        rc = thin_versions(c, seqs[i], rc);
    if (!rc) /* the last one may have more */
        *after = c->thinned == c->most ? seqs[i - 1] - 1
                 : n == THIN_ROWS      ? seqs[n - 1]
                                       : UINT64_MAX;
    return end_change(c, rc, why);
}

enum status
content_loose(struct content *c, const struct digest *after,
              struct digest *digests, size_t *n, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&c->fold.db, NULL, why,
                  "SELECT digest FROM files INDEXED BY loose WHERE n=0"
                  " AND digest>? AND length(digest)=32 ORDER BY digest LIMIT ?",
                  db_bytes(after, after ? DIGEST_SIZE : 0), *n);

    *n = 0;
    c->at.is_loose = false;
    while (DB_NEXT(&rows, &digests[*n]))
        ++*n;
    return db_rows_end(&rows);
}

enum status
content_let_go(struct content *c, const struct digest *digests, size_t n,
               struct problem *why)
{
    enum status rc = begin_change(c);

    for (size_t i = 0; !rc && i < n; i++)
        rc = DB_DO(&c->fold.db, NULL, &c->why,
                   "DELETE FROM files WHERE digest=? AND n=0", &digests[i]);
    return end_change(c, rc, why);
}

enum status
content_each_file(const char *path, content_file_fn *fn, void *user,
                  struct problem *why)
{
    struct digest digest;
    struct db_rows rows;
    struct db db;
    enum status rc = db_open(&db, path, DB_LOOK, why);

    if (rc)
        return rc;
    rows = DB_SELECT(&db, "read " CONTENT_FILE, why,
                     "SELECT digest FROM files WHERE n > 0"
                     " AND length(digest) = 32");
    while (DB_NEXT(&rows, &digest))
        rows.rc = fn(&digest, user, why);
    rc = db_rows_end(&rows);
    db_close(&db);
    return rc;
}

/*
 * survey.c - a history for a source that has none.
 *
 *     entry --+-- resource: as it was --> seen (kind 0, 1, 2; fragment)
 *             |                             |
 *             +-- survey_compare: kinds and what is not seen --> change
 *                                  seen --> resource
 */
#include "client/survey/survey.h"

#include <poll.h>

#include "base/clock.h"
#include "base/random.h"
#include "client/lib/temporary_file.h"
#include "proto/resourcesync/fragment.h"

/* Bytes of resources between two looks at the free bytes of the disk. */
#define LOOK_BYTES 65536

/* Removals that never are too many, unless they are all but so few. */
#define FEW     100
#define FEW_ALL 3

/* Untold numbers are NULL, untold texts are empty. A document without a version
 * has to be read each time. A resource of document 0 is held back.
 * survey.left_out: rows of the last reading whose deletions counted. */
static const char *const steps[] = {
    "CREATE TABLE listing (source TEXT NOT NULL, epoch TEXT NOT NULL,"
    " oldest INTEGER NOT NULL, before INTEGER NOT NULL,"
    " last INTEGER NOT NULL, is_read INTEGER NOT NULL,"
    " when_us INTEGER NOT NULL);"
    "CREATE TABLE document (id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE,"
    " etag TEXT NOT NULL, modified TEXT NOT NULL);"
    "CREATE TABLE resource (loc TEXT PRIMARY KEY, document INTEGER NOT NULL,"
    " lastmod INTEGER, hash TEXT NOT NULL, length INTEGER) WITHOUT ROWID;"
    "CREATE TABLE change (seq INTEGER PRIMARY KEY, when_us INTEGER NOT NULL,"
    " hole INTEGER NOT NULL, fragment BLOB NOT NULL);",
    "ALTER TABLE listing ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE document ADD COLUMN digest TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE document ADD COLUMN must_read INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE listing ADD COLUMN held_of INTEGER NOT NULL DEFAULT 0",
};

/* The reading that is under way. `is_reread`: the next reading reads the
 * document again, even if it has not changed, because `seen` does not have
 * exactly its resources. `seen` notes a resource with the last document that
 * has it, so the trigger marks all documents that share a resource. */
static const char scratch[] =
    "PRAGMA temp_store = FILE;"
    "CREATE TEMP TABLE read (id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE,"
    " etag TEXT NOT NULL, modified TEXT NOT NULL, digest TEXT NOT NULL,"
    " is_same INTEGER NOT NULL, is_reread INTEGER NOT NULL,"
    " left_out INTEGER NOT NULL, must_read INTEGER NOT NULL);"
    "CREATE TEMP TABLE seen (n INTEGER PRIMARY KEY, loc TEXT NOT NULL UNIQUE,"
    " document INTEGER NOT NULL, lastmod INTEGER,"
    " hash TEXT NOT NULL, length INTEGER, hole INTEGER, fragment BLOB);"
    "CREATE TEMP TRIGGER shared AFTER UPDATE OF document ON seen"
    " WHEN old.document <> new.document BEGIN"
    " UPDATE read SET is_reread = 1 WHERE id IN (old.document, new.document);"
    " END;";

#define SUM_LEFT_OUT "SELECT coalesce(sum(left_out), 0) FROM read"
#define NOT_SEEN     "loc NOT IN (SELECT loc FROM seen)"

/* No WAL: the end of a transaction would copy it into the file, where nobody
 * looks at the free bytes of the disk. */
static const struct db_kind survey_kind = {
    .name = "the last list of the source",
    .mode = DB_OWN_ROLLBACK,
    .application_id = 1415859305, /* "TdLi" */
    .steps = steps,
    .n_steps = N_ELEMENTS(steps),
    .opening = scratch,
};

/* Steps of the database */

/* Ends a step: true if it went well. A failed one ends the transaction. */
static bool
end_step(struct survey *l, enum status rc)
{
    int code = sqlite3_errcode(l->db.handle) & 0xff;

    if (!rc)
        return true;
    if (rc == STATUS_STOPPED && l->limit.is_limit)
        l->why = l->limit;
    if (rc == STATUS_BUSY) /* the disk is full, or another process has it */
        l->why.rc = STATUS_IO;
    /* Its disk, or that of the temporary tables. */
    if (code == SQLITE_FULL || code == SQLITE_IOERR)
        problem_prefix(&l->why, STATUS_IO, "with temporary files in %.500s: ",
                       temporary_directory());
    db_rollback(&l->db);
    return false;
}

/* Runs a statement with its values. True: it has not failed. */
#define RUN(l, ...) end_step((l), DB_DO(&(l)->db, NULL, &(l)->why, __VA_ARGS__))

static bool
run_text(struct survey *l, const char *text)
{
    return end_step(l, db_exec(&l->db, text, &l->why));
}

static bool
begin_transaction(struct survey *l)
{
    return end_step(l, db_begin(&l->db, &l->why));
}

/* Reads the row of a query without parameters. */
#define ASK(l, text, ...)                                          \
    end_step((l), db_find(&(l)->db, NULL, &(l)->why, NULL, (text), \
                          DB_VALUES(), DB_INTO(__VA_ARGS__)))

/* Opening */

static bool
make_epoch(struct survey *l)
{
    return random_hex(l->extent.epoch, sizeof(l->extent.epoch)) ||
           !problem(&l->why, STATUS_IO, "no random numbers");
}

/* Reads how far the history reaches; `source`: which has to be that of the
 * file; NULL: whatever it is. */
static bool
read_extent(struct survey *l, const char *source)
{
    struct survey_extent *e = &l->extent;
    struct slice its;
    struct db_rows rows =
        DB_SELECT(&l->db, NULL, &l->why,
                  "SELECT source, epoch, oldest, last, is_read,"
                  " (SELECT count(*) FROM resource),"
                  " (SELECT count(*) FROM resource WHERE document = 0), held_of"
                  " FROM listing");

    if (DB_NEXT(&rows, &its, &e->epoch, &e->oldest, &e->last, &e->is_read,
                &e->n_resources, &e->n_held, &e->n_held_of) &&
        (!epoch_is_valid(slice_of(e->epoch)) ||
         (source && !slice_is(its, source))))
        rows.rc = db_fail(&l->db, STATUS_INVALID, &l->why,
                          "the file is the last list of another source: %.*s",
                          SLICE_ARG(its));
    return end_step(l, db_rows_end(&rows));
}

/* The limits of the handle */

/* True if the disks of the file and of the temporary tables have enough free
 * bytes. */
static bool
has_room(struct survey *l)
{
    l->unlooked = 0;
    return !l->room ||
           (!(l->path && source_limits_look_at(l->room, l->path, 0, &l->why)) &&
            !source_limits_look_at(l->room, temporary_directory(), 0, &l->why));
}

/* SQLite asks this while it works: a list of 200,000 resources is compared for
 * a second or more. Writing ends before it fills the disk. */
static int
is_ending(void *user)
{
    struct survey *l = user;
    struct pollfd stop = {.fd = l->stop_fd, .events = POLLIN};

    if (poll(&stop, 1, 0) > 0)
        return 1;
    if ((!l->is_seeing && sqlite3_get_autocommit(l->db.handle)) || has_room(l))
        return 0;
    l->limit = l->why;
    return 1;
}

struct survey *
survey_open(const char *path, const char *source, struct source_limits *room,
            int stop_fd, struct problem *why)
{
    struct survey *l = calloc(1, sizeof(*l));

    problem_clear(why);
    if (!l) {
        problem_memory(why);
        return NULL;
    }
    buf_init(&l->line, 2 * FRAGMENT_MAX);
    l->path = path ? strdup(path) : NULL;
    if (path && !l->path)
        problem_memory(&l->why);
    else if (end_step(l, db_open_kind(&l->db, &survey_kind, path ? path : "",
                                      &l->why)) &&
             make_epoch(l) &&
             RUN(l,
                 "INSERT INTO listing SELECT ?, ?, 0, 0, 0, 0, 0, 0, 0"
                 " WHERE NOT EXISTS (SELECT 1 FROM listing)",
                 source, l->extent.epoch) &&
             read_extent(l, source)) {
        l->room = room;
        l->stop_fd = stop_fd;
        db_interrupt(&l->db, is_ending, l);
        return l;
    }
    *why = l->why;
    survey_close(l);
    return NULL;
}

void
survey_close(struct survey *l)
{
    if (!l)
        return;
    db_close(&l->db);
    buf_fini(&l->line);
    free(l->path);
    free(l);
}

/* Reading */

static bool
drop_reading(struct survey *l)
{
    return run_text(l, "DELETE FROM seen; DELETE FROM read;");
}

bool
survey_begin(struct survey *l)
{
    problem_clear(&l->why);
    problem_clear(&l->limit);
    l->unlooked = LOOK_BYTES; /* the first resource looks */
    return drop_reading(l);
}

/* A document of the last reading keeps its number, so that the rows of its
 * resources stay. Resources of an attempt that broke off stay until the next
 * reading. */
bool
survey_document(struct survey *l, const char *url, struct survey_version *known)
{
    return RUN(l,
               "INSERT INTO read SELECT"
               " coalesce((SELECT id FROM document WHERE url = ?1),"
               "  1 + max((SELECT coalesce(max(id), 0) FROM read),"
               "  (SELECT coalesce(max(id), 0) FROM document))),"
               " ?1, '', '', '', 0, 0, 0, 0 WHERE true"
               " ON CONFLICT (url) DO UPDATE SET etag = '', modified = '',"
               " digest = '', is_same = 0, is_reread = is_reread OR EXISTS"
               " (SELECT 1 FROM seen WHERE document = read.id)",
               url) &&
           end_step(
               l,
               db_find(&l->db, NULL, &l->why, NULL,
                       "SELECT r.id, d.etag, d.modified, d.digest, d.must_read"
                       " FROM read r LEFT JOIN document d USING (url)"
                       " WHERE r.url = ?",
                       DB_VALUES(url),
                       DB_INTO(&l->document, &known->etag, &known->modified,
                               &known->digest, &known->must_read)));
}

bool
survey_document_end(struct survey *l, const struct survey_version *version,
                    uint64_t n_left_out)
{
    static const struct survey_version unknown = {.etag = ""};

    version = version ? version : &unknown;
    return RUN(l,
               "UPDATE read SET etag = ?, modified = ?,"
               " digest = ?, left_out = ?, must_read = ?"
               " WHERE id = ?",
               version->etag, version->modified, version->digest, n_left_out,
               version->must_read, l->document);
}

bool
survey_document_same(struct survey *l)
{
    return RUN(l,
               "UPDATE read SET is_same = 1, etag = d.etag,"
               " modified = d.modified, digest = d.digest"
               " FROM document d"
               " WHERE read.id = ?1 AND d.id = ?1",
               l->document);
}

const struct survey_resource survey_resource_unknown = {
    DATETIME_NONE, {NULL, 0}, LENGTH_NONE};

bool
survey_resources_agree(const struct survey_resource *had,
                       const struct survey_resource *now, bool *is_proven)
{
    bool had_lastmod = had->lastmod_us != DATETIME_NONE;
    bool had_length = had->length != LENGTH_NONE;
    bool has_lastmod = now->lastmod_us != DATETIME_NONE;
    bool has_length = now->length != LENGTH_NONE;
    bool has_common = false;
    bool is_good =
        (!had_lastmod || !has_lastmod || had->lastmod_us == now->lastmod_us) &&
        (!had_length || !has_length || had->length == now->length) &&
        hashes_agree(had->hash, now->hash, &has_common);

    *is_proven = has_common || (had_lastmod && has_lastmod) ||
                 (had_length && has_length) ||
                 (!had_lastmod && !had_length && !had->hash.size &&
                  !has_lastmod && !has_length && !now->hash.size);
    return is_good;
}

/* Writes the entry into `line`; of an entry that is too long, loc, lastmod,
 * hash and length alone. */
static bool
write_fragment(struct survey *l, const struct document_entry *entry,
               enum change_kind kind, struct fragment *f)
{
    struct change change = entry->change;
    struct change bare;

    buf_clear(&l->line);
    change.kind = kind;
    change.datetime_us = change.source_us = DATETIME_NONE;
    if (!fragment_write(&l->line, &change, f, NULL))
        return true;
    change_init(&bare);
    bare.kind = kind;
    bare.loc = change.loc;
    bare.lastmod_us = change.lastmod_us;
    bare.is_lastmod_date = change.is_lastmod_date;
    bare.hash = change.hash;
    bare.length = change.length;
    buf_clear(&l->line);
    return !fragment_write(&l->line, &bare, f, NULL) ||
           !problem_memory(&l->why);
}

bool
survey_add(struct survey *l, const struct document_entry *entry)
{
    const struct change *c = &entry->change;
    const struct survey_resource now = {c->lastmod_us, c->hash, c->length};
    struct survey_resource had;
    struct fragment f = {.size = 0};
    bool is_proven;
    struct db_rows rows = DB_SELECT(
        &l->db, NULL, &l->why,
        "SELECT " SURVEY_RESOURCE_READ " FROM resource WHERE loc = ?", c->loc);
    bool is_known = DB_NEXT(&rows, SURVEY_RESOURCE_INTO(&had));
    bool is_it =
        is_known && survey_resources_agree(&had, &now, &is_proven) && is_proven;

    if (!end_step(l, db_rows_end(&rows)))
        return false;
    buf_clear(&l->line);
    if (!is_it && !write_fragment(
                      l, entry, is_known ? CHANGE_UPDATED : CHANGE_CREATED, &f))
        return false;
    l->unlooked += c->loc.size + l->line.size;
    return RUN(l,
               "INSERT INTO seen (loc, document, lastmod, hash, length, hole,"
               " fragment) VALUES (?, ?, " SURVEY_RESOURCE_WRITTEN ", ?, ?)"
               " ON CONFLICT (loc) DO UPDATE SET"
               " document = excluded.document, lastmod = excluded.lastmod,"
               " hash = excluded.hash, length = excluded.length,"
               " hole = excluded.hole, fragment = excluded.fragment",
               c->loc, l->document, SURVEY_RESOURCE_OF(&now), f.hole,
               is_it ? db_value_chars(NULL) : db_bytes(l->line.data, f.size)) &&
           (l->unlooked < LOOK_BYTES || has_room(l));
}

/* The end of a reading */

/* Adds the resources of documents that have not changed. */
static const char see_same[] =
    "UPDATE read SET is_reread = 1 WHERE id IN"
    " (SELECT r.document FROM resource r JOIN seen s USING (loc)"
    "  JOIN read d ON d.id = r.document AND d.is_same"
    "  WHERE s.document <> r.document"
    "  UNION SELECT s.document FROM resource r JOIN seen s USING (loc)"
    "  JOIN read d ON d.id = r.document AND d.is_same"
    "  WHERE s.document <> r.document);"
    "INSERT OR IGNORE INTO seen (loc, document, lastmod, hash, length)"
    " SELECT loc, document, lastmod, hash, length FROM resource"
    " WHERE document IN (SELECT id FROM read WHERE is_same);";

/* False: that failed, or the reading, with these documents, has more resources
 * than the handle allows. */
static bool
see_unchanged(struct survey *l)
{
    bool is_good;
    uint64_t n;

    l->is_seeing = true;
    is_good = has_room(l) && run_text(l, see_same);
    l->is_seeing = false;
    if (!is_good || !l->room || !l->room->limits.max_resources)
        return is_good;
    return ASK(l, "SELECT count(*) FROM seen", &n) &&
           !source_limits_check_resources(l->room, n, &l->why);
}

static const char forget_unseen[] = "DELETE FROM resource WHERE " NOT_SEEN;
static const char hold_unseen[] = "UPDATE resource SET document = 0"
                                  " WHERE document <> 0 AND " NOT_SEEN;

/* The reading becomes the last complete one. */
static const char replace[] =
    "INSERT OR REPLACE INTO resource"
    " SELECT loc, document, lastmod, hash, length FROM seen s"
    " WHERE NOT EXISTS (SELECT 1 FROM resource r WHERE r.loc = s.loc"
    "  AND r.document = s.document AND r.lastmod IS s.lastmod"
    "  AND r.hash = s.hash AND r.length IS s.length);"
    "DELETE FROM document;"
    "INSERT INTO document SELECT id, url, iif(is_reread, '', etag),"
    " iif(is_reread, '', modified), iif(is_reread, '', digest), must_read"
    " FROM read;";

/* Writes where the history stands, deletes differences that are too old, and
 * commits. `counts`: the rows that this reading has left out are those that a
 * later one may leave out, too. */
static bool
commit_reading(struct survey *l, int64_t now_us, bool counts)
{
    /* The differences of the reading before are kept once more. */
    return RUN(l,
               "UPDATE listing SET oldest = iif(top > last, before, oldest),"
               " before = iif(top > last, last, before),"
               " last = max(top, last), is_read = 1,"
               " when_us = max(?, when_us),"
               " left_out = iif(?, (" SUM_LEFT_OUT "), left_out), held_of = ?"
               " FROM (SELECT coalesce(max(seq), 0) AS top FROM change)",
               now_us, counts, l->extent.n_held_of) &&
           run_text(l, "DELETE FROM change"
                       " WHERE seq <= (SELECT oldest FROM listing)") &&
           end_step(l, db_end(&l->db, STATUS_OK, &l->why)) &&
           read_extent(l, NULL) && drop_reading(l);
}

bool
survey_take(struct survey *l)
{
    l->extent.n_held_of = 0;
    return see_unchanged(l) && begin_transaction(l) &&
           run_text(l, forget_unseen) && run_text(l, replace) &&
           run_text(l, "UPDATE listing SET oldest = last + is_read,"
                       " before = last + is_read, last = last + is_read") &&
           commit_reading(l, clock_now_us(), true);
}

/* Deleted resources become differences. */
static bool
write_deleted(struct survey *l, int64_t now_us)
{
    struct db_rows rows =
        DB_SELECT(&l->db, NULL, &l->why,
                  "SELECT loc FROM resource WHERE " NOT_SEEN " ORDER BY loc");
    struct change gone;
    struct fragment f;

    change_init(&gone);
    gone.kind = CHANGE_DELETED;
    while (DB_NEXT(&rows, &gone.loc)) {
        buf_clear(&l->line);
        rows.rc =
            fragment_write(&l->line, &gone, &f, NULL)
                ? problem_memory(&l->why)
                : DB_DO(&l->db, NULL, &l->why,
                        "INSERT INTO change SELECT"
                        " 1 + max(last, (SELECT coalesce(max(seq), 0) FROM"
                        " change)), max(?, when_us), ?, ? FROM listing",
                        now_us, f.hole, db_bytes(l->line.data, f.size));
    }
    return end_step(l, db_rows_end(&rows));
}

bool
survey_holds_back(const struct survey_guard *guard, uint64_t n, uint64_t n_of,
                  uint64_t *held_of)
{
    int percent = guard->max_percent;
    uint64_t of = *held_of ? *held_of : n_of;
    bool is_all = !guard->is_told && n > FEW_ALL && n >= of;
    bool is_share = n >= FEW && (double)n * 100 > (double)of * (double)percent;
    bool is_too_much = percent >= 0 && percent < 100 && (is_all || is_share);
    bool is_held = n > guard->accepts && (guard->is_doubtful || is_too_much);

    *held_of = is_held ? of : 0;
    return is_held;
}

bool
survey_compare(struct survey *l, const struct survey_guard *guard)
{
    int64_t now_us = clock_now_us();
    struct survey_guard all = *guard;
    bool is_unchanged, leaves_out_more, is_held;
    uint64_t n_deleted;

    /* No document with resources has changed, and none is missing. */
    if (!ASK(l,
             "SELECT is_read AND NOT EXISTS (SELECT 1 FROM seen)"
             " AND NOT EXISTS (SELECT 1 FROM resource WHERE document"
             "  NOT IN (SELECT id FROM read WHERE is_same))"
             " FROM listing",
             &is_unchanged))
        return false;
    if (is_unchanged)
        return true;
    if (!see_unchanged(l) ||
        !ASK(l,
             "SELECT (SELECT count(*) FROM resource WHERE " NOT_SEEN
             "), (" SUM_LEFT_OUT ") > left_out FROM listing",
             &n_deleted, &leaves_out_more))
        return false;
    all.is_doubtful |= leaves_out_more;
    is_held = survey_holds_back(&all, n_deleted, l->extent.n_resources,
                                &l->extent.n_held_of);
    return begin_transaction(l) && /* created and updated resources, in the
                                      order of the list */
           RUN(l,
               "INSERT INTO change"
               " SELECT last + row_number() OVER (ORDER BY n),"
               " max(?, when_us), hole, fragment FROM seen, listing"
               " WHERE fragment IS NOT NULL",
               now_us) &&
           (is_held || write_deleted(l, now_us)) &&
           run_text(l, is_held ? hold_unseen : forget_unseen) &&
           run_text(l, replace) &&
           commit_reading(l, now_us, !is_held && !guard->is_doubtful);
}

bool
survey_clear(struct survey *l)
{
    if (!make_epoch(l) || !begin_transaction(l) ||
        !run_text(l, "DELETE FROM resource; DELETE FROM document;"
                     "DELETE FROM change;"))
        return false;
    return RUN(l,
               "UPDATE listing SET epoch = ?, oldest = 0,"
               " before = 0, last = 0, is_read = 0, when_us = 0,"
               " left_out = 0, held_of = 0",
               l->extent.epoch) &&
           end_step(l, db_end(&l->db, STATUS_OK, &l->why)) &&
           read_extent(l, NULL) && drop_reading(l);
}

/* Differences */

bool
survey_changes(struct survey *l, uint64_t after, unsigned n_most,
               const struct document_events *events, void *user)
{
    struct document *document = document_new("", events, user);
    struct db_rows rows =
        DB_SELECT(&l->db, NULL, &l->why,
                  "SELECT seq, when_us, hole, fragment FROM change"
                  " WHERE seq > ? ORDER BY seq LIMIT ?",
                  after, n_most);
    struct slice bytes;
    uint64_t seq;
    int64_t when_us;
    uint32_t hole;
    enum status rc = STATUS_MEMORY;
    bool is_good;

    if (document)
        rc = document_feed(document,
                           SLICE("<urlset xmlns=\"" NS_SITEMAP
                                 "\" xmlns:rs=\"" NS_RS
                                 "\" xmlns:td=\"" NS_TIDINGS "\">"),
                           NULL);
    /* Feeds each difference to the reader, as an entry of a Change List. */
    while (!rc && DB_NEXT(&rows, &seq, &when_us, &hole, &bytes)) {
        const struct fragment f = {.hole = hole,
                                   .size = (uint32_t)bytes.size,
                                   .datetime_us = DATETIME_NONE};

        buf_clear(&l->line);
        rc = STATUS_MEMORY;
        if (bytes.data && hole <= f.size &&
            buf_room(&l->line, bytes.size + FRAGMENT_STAMP_MAX)) {
            bytes.size =
                fragment_stamp(l->line.data, bytes.data, &f, when_us, seq);
            bytes.data = l->line.data;
            rc = document_feed(document, bytes, NULL);
        }
    }
    is_good = end_step(l, db_rows_end(&rows));
    if (is_good && !rc)
        rc = document_feed(document, SLICE("</urlset>"), NULL);
    if (is_good && !rc)
        rc = document_end(document, NULL);
    document_free(document);
    if (!is_good || !rc || rc == STATUS_STOPPED)
        return is_good;
    if (rc == STATUS_MEMORY)
        return !problem_memory(&l->why);
    db_fail(&l->db, STATUS_IO, &l->why, "the file is damaged");
    return false;
}

/*
 * listing.c - a history for a source that has none.
 *
 *     entry --+-- resource: as it was --> seen (kind 0, 1, 2; fragment)
 *             |                             |
 *             +-- listing_compare: kinds and what is not seen --> change
 *                                  seen --> resource
 */
#include "client/listing/listing.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/db.h"
#include "base/random.h"
#include "client/lib/temporary_file.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/fragment.h"

/* Bytes of resources between two looks at the free bytes of the disk. */
#define LOOK_BYTES 65536

/* Removals that never are too many. */
#define FEW 100

/* Untold numbers are NULL, untold texts are empty. A document without a version
 * has to be read each time. A resource of document 0 is held back.
 * listing.left_out: rows of the last reading whose deletions counted. */
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

enum sql {
    SQL_BIND,
    SQL_LISTING,
    SQL_STAND,
    SQL_NUMBER,
    SQL_BEGIN_DOCUMENT,
    SQL_END_DOCUMENT,
    SQL_SAME_DOCUMENT,
    SQL_KNOWN,
    SQL_LOOK,
    SQL_SEE,
    SQL_CHANGED,
    SQL_DELETED,
    SQL_CHANGE,
    SQL_READ,
    N_SQL
};

static const char *const texts[N_SQL] = {
    [SQL_BIND] = "INSERT INTO listing SELECT ?1, ?2, 0, 0, 0, 0, 0, 0"
                 " WHERE NOT EXISTS (SELECT 1 FROM listing)",
    [SQL_LISTING] = "SELECT source, epoch, oldest, last, is_read FROM listing",
    [SQL_STAND] = "UPDATE listing SET oldest = ?1, before = ?2, last = ?3,"
                  " is_read = 1, when_us = ?4, epoch = ?5, left_out = ?6",
    [SQL_NUMBER] = "SELECT coalesce((SELECT id FROM read WHERE url = ?1),"
                   " (SELECT id FROM document WHERE url = ?1),"
                   " 1 + max((SELECT coalesce(max(id), 0) FROM read),"
                   " (SELECT coalesce(max(id), 0) FROM document)))",
    /* Resources of an attempt that broke off stay until the next reading. */
    [SQL_BEGIN_DOCUMENT] = "INSERT INTO read VALUES"
                           " (?1, ?2, '', '', '', 0, 0, 0, 0)"
                           " ON CONFLICT DO UPDATE SET etag = '',"
                           " modified = '', digest = '', is_same = 0,"
                           " is_reread = is_reread OR EXISTS"
                           " (SELECT 1 FROM seen WHERE document = ?1)",
    [SQL_END_DOCUMENT] = "UPDATE read SET etag = ?2, modified = ?3,"
                         " digest = ?4, left_out = ?5, must_read = ?6"
                         " WHERE id = ?1",
    [SQL_SAME_DOCUMENT] = "UPDATE read SET is_same = 1, etag = d.etag,"
                          " modified = d.modified, digest = d.digest"
                          " FROM document d"
                          " WHERE read.id = ?1 AND d.id = ?1",
    [SQL_KNOWN] = "SELECT etag, modified, digest, must_read FROM document"
                  " WHERE url = ?1",
    [SQL_LOOK] = "SELECT lastmod, hash, length FROM resource WHERE loc = ?1",
    [SQL_SEE] = "INSERT INTO seen (loc, document, lastmod, hash, length, hole,"
                " fragment) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                " ON CONFLICT (loc) DO UPDATE SET"
                " document = excluded.document, lastmod = excluded.lastmod,"
                " hash = excluded.hash, length = excluded.length,"
                " hole = excluded.hole, fragment = excluded.fragment",
    [SQL_CHANGED] = "SELECT hole, fragment FROM seen"
                    " WHERE fragment IS NOT NULL ORDER BY n",
    [SQL_DELETED] = "SELECT loc FROM resource WHERE " NOT_SEEN " ORDER BY loc",
    [SQL_CHANGE] = "INSERT INTO change VALUES (?1, ?2, ?3, ?4)",
    [SQL_READ] = "SELECT seq, when_us, hole, fragment FROM change"
                 " WHERE seq > ?1 ORDER BY seq LIMIT ?2",
};

/* No WAL: the end of a transaction would copy it into the file, where nobody
 * looks at the free bytes of the disk. */
static const struct db_kind listing_kind = {
    .name = "the last list of the source",
    .mode = DB_OWN_ROLLBACK,
    .application_id = 1415859305, /* "TdLi" */
    .steps = steps,
    .n_steps = sizeof(steps) / sizeof(steps[0]),
    .opening = scratch,
    .sql = texts,
    .n_sql = N_SQL,
};

struct listing {
    struct db db;
    struct listing_extent extent;
    int64_t document; /* that is read */
    int stop_fd;
    char *path;                 /* NULL: a temporary file */
    struct source_limits *room; /* the handle's; NULL: no limits */
    uint64_t unlooked; /* bytes of resources since the last look at the disk */
    bool is_seeing;    /* see_unchanged works */
    struct buf line;   /* a fragment */
    struct problem why;
    struct problem limit; /* why is_ending stopped a statement; is_limit */
};

/* Steps of the database */

/* Ends a step: true if it went well. A failed one ends the transaction. */
static bool
end_step(struct listing *l, enum status rc)
{
    if (!rc)
        return true;
    if (rc == STATUS_STOPPED && l->limit.is_limit)
        l->why = l->limit;
    if (rc == STATUS_BUSY) /* the disk is full, or another process has it */
        l->why.rc = STATUS_IO;
    db_rollback(&l->db);
    return false;
}

static bool
fail_memory(struct listing *l)
{
    problem_memory(&l->why);
    return false;
}

static bool
run_text(struct listing *l, const char *text)
{
    return end_step(l, db_exec(&l->db, text, &l->why));
}

static bool
begin_transaction(struct listing *l)
{
    return end_step(l, db_begin(&l->db, &l->why));
}

static sqlite3_stmt *
kept_statement(struct listing *l, enum sql which)
{
    return l->db.statements[which];
}

/* Runs a statement without rows. */
static bool
run_statement(struct listing *l, sqlite3_stmt *s)
{
    enum status rc = db_run(&l->db, s, NULL, &l->why);

    sqlite3_clear_bindings(s);
    return end_step(l, rc);
}

/* Goes to the next row. False: it failed. */
static bool
step_to_row(struct listing *l, sqlite3_stmt *s, bool *row)
{
    return end_step(l, db_step(&l->db, s, row, NULL, &l->why));
}

/* The number that a query comes to. */
static bool
ask_number(struct listing *l, const char *text, uint64_t *number)
{
    int64_t n = 0;
    bool is_good = end_step(l, db_number(&l->db, text, &n, &l->why));

    *number = (uint64_t)n;
    return is_good;
}

/* Opening */

static bool
make_epoch(struct listing *l)
{
    return random_hex(l->extent.epoch, sizeof(l->extent.epoch)) ||
           !problem(&l->why, STATUS_IO, "no random numbers");
}

/* Binds a new file to the source. */
static bool
bind_source(struct listing *l, const char *source)
{
    sqlite3_stmt *s = kept_statement(l, SQL_BIND);

    if (!make_epoch(l))
        return false;
    db_bind_text(s, 1, slice_of(source));
    db_bind_text(s, 2, slice_of(l->extent.epoch));
    return run_statement(l, s);
}

static bool
read_source(struct listing *l, const char *source)
{
    sqlite3_stmt *s = kept_statement(l, SQL_LISTING);
    struct slice its;
    bool row;
    bool is_good = step_to_row(l, s, &row);

    if (is_good) {
        its = db_column(s, 0);
        db_text(s, 1, l->extent.epoch, sizeof(l->extent.epoch));
        l->extent.oldest = (uint64_t)sqlite3_column_int64(s, 2);
        l->extent.last = (uint64_t)sqlite3_column_int64(s, 3);
        l->extent.is_read = sqlite3_column_int64(s, 4) != 0;
        is_good =
            epoch_is_valid(slice_of(l->extent.epoch)) && slice_is(its, source);
        if (!is_good)
            db_fail(&l->db, STATUS_INVALID, &l->why,
                    "the file is the last list of another source: %.*s",
                    SLICE_ARG(its));
    }
    db_reset(s);
    return is_good;
}

static bool
count_resources(struct listing *l)
{
    return ask_number(l, "SELECT count(*) FROM resource",
                      &l->extent.n_resources) &&
           ask_number(l, "SELECT count(*) FROM resource WHERE document = 0",
                      &l->extent.n_held);
}

/* The limits of the handle */

/* True if the disks of the file and of the temporary tables have enough free
 * bytes. */
static bool
has_room(struct listing *l)
{
    l->unlooked = 0;
    return !l->room ||
           (!(l->path && source_limits_look_at(l->room, l->path, 0, &l->why)) &&
            !source_limits_look_at(l->room, temporary_directory(), 0, &l->why));
}

/* The same for a resource, but not for each one. */
static bool
has_room_for(struct listing *l, uint64_t size)
{
    l->unlooked += size;
    return l->unlooked < LOOK_BYTES || has_room(l);
}

/* True if the reading, with the documents that have not changed, has no more
 * resources than the handle allows. */
static bool
has_allowed_size(struct listing *l)
{
    uint64_t n;

    return !l->room || !l->room->limits.max_resources ||
           (ask_number(l, "SELECT count(*) FROM seen", &n) &&
            !source_limits_check_resources(l->room, n, &l->why));
}

/* SQLite asks this while it works: a list of 200,000 resources is compared for
 * a second or more. Writing ends before it fills the disk. */
static int
is_ending(void *user)
{
    struct listing *l = user;
    struct pollfd stop = {.fd = l->stop_fd, .events = POLLIN};

    if (poll(&stop, 1, 0) > 0)
        return 1;
    if ((!l->is_seeing && sqlite3_get_autocommit(l->db.handle)) || has_room(l))
        return 0;
    l->limit = l->why;
    return 1;
}

struct listing *
listing_open(const char *path, const char *source, struct source_limits *room,
             int stop_fd, struct problem *why)
{
    struct listing *l = calloc(1, sizeof(*l));

    problem_clear(why);
    if (!l) {
        problem_memory(why);
        return NULL;
    }
    buf_init(&l->line, 2 * FRAGMENT_MAX);
    l->path = path ? strdup(path) : NULL;
    if (path && !l->path)
        problem_memory(&l->why);
    else if (end_step(l, db_open_kind(&l->db, &listing_kind, path ? path : "",
                                      &l->why)) &&
             bind_source(l, source) && read_source(l, source) &&
             count_resources(l)) {
        l->room = room;
        l->stop_fd = stop_fd;
        db_interrupt(&l->db, is_ending, l);
        return l;
    }
    *why = l->why;
    listing_close(l);
    return NULL;
}

void
listing_close(struct listing *l)
{
    if (!l)
        return;
    db_close(&l->db);
    buf_fini(&l->line);
    free(l->path);
    free(l);
}

const struct problem *
listing_failure(const struct listing *l)
{
    return &l->why;
}

const struct listing_extent *
listing_extent(const struct listing *l)
{
    return &l->extent;
}

/* Reading */

bool
listing_begin(struct listing *l)
{
    problem_clear(&l->why);
    problem_clear(&l->limit);
    l->unlooked = LOOK_BYTES; /* the first resource looks */
    return run_text(l, "DELETE FROM seen; DELETE FROM read;");
}

/* Numbers the document; one of the last reading keeps its number, so that the
 * rows of its resources stay. */
static bool
number_document(struct listing *l, const char *url)
{
    sqlite3_stmt *s = kept_statement(l, SQL_NUMBER);
    bool row;
    bool is_good;

    db_bind_text(s, 1, slice_of(url));
    is_good = step_to_row(l, s, &row);
    if (is_good)
        l->document = sqlite3_column_int64(s, 0);
    db_reset(s);
    return is_good;
}

bool
listing_document(struct listing *l, const char *url,
                 struct listing_version *known)
{
    sqlite3_stmt *begin = kept_statement(l, SQL_BEGIN_DOCUMENT);
    sqlite3_stmt *s = kept_statement(l, SQL_KNOWN);
    bool is_good;
    bool row;

    *known = (struct listing_version){.etag = ""};
    if (!number_document(l, url))
        return false;
    sqlite3_bind_int64(begin, 1, l->document);
    db_bind_text(begin, 2, slice_of(url));
    if (!run_statement(l, begin))
        return false;
    db_bind_text(s, 1, slice_of(url));
    is_good = step_to_row(l, s, &row);
    if (is_good && row) {
        db_text(s, 0, known->etag, sizeof(known->etag));
        db_text(s, 1, known->modified, sizeof(known->modified));
        db_text(s, 2, known->digest, sizeof(known->digest));
        known->must_read = sqlite3_column_int(s, 3) != 0;
    }
    db_reset(s);
    return is_good;
}

bool
listing_document_end(struct listing *l, const struct listing_version *version,
                     uint64_t n_left_out)
{
    static const struct listing_version unknown = {.etag = ""};
    sqlite3_stmt *s = kept_statement(l, SQL_END_DOCUMENT);

    version = version ? version : &unknown;
    sqlite3_bind_int64(s, 1, l->document);
    db_bind_text(s, 2, slice_of(version->etag));
    db_bind_text(s, 3, slice_of(version->modified));
    db_bind_text(s, 4, slice_of(version->digest));
    sqlite3_bind_int64(s, 5, (sqlite3_int64)n_left_out);
    sqlite3_bind_int(s, 6, version->must_read);
    return run_statement(l, s);
}

bool
listing_document_same(struct listing *l)
{
    sqlite3_stmt *s = kept_statement(l, SQL_SAME_DOCUMENT);

    sqlite3_bind_int64(s, 1, l->document);
    return run_statement(l, s);
}

/* True if the row at hand and the list agree on lastmod, hash and length, as
 * far as both have them. Without one that both have: true if neither has any.
 */
static bool
is_same(sqlite3_stmt *s, const struct change *now)
{
    bool had_lastmod = sqlite3_column_type(s, 0) != SQLITE_NULL;
    bool had_length = sqlite3_column_type(s, 2) != SQLITE_NULL;
    struct slice hash = db_column(s, 1);
    bool has_lastmod = now->lastmod_us != DATETIME_NONE;
    bool has_length = now->length != LENGTH_NONE;
    bool has_common;

    if (had_lastmod && has_lastmod &&
        sqlite3_column_int64(s, 0) != now->lastmod_us)
        return false;
    if (had_length && has_length &&
        (uint64_t)sqlite3_column_int64(s, 2) != now->length)
        return false;
    if (!hashes_agree(hash, now->hash, &has_common))
        return false;
    return has_common || (had_lastmod && has_lastmod) ||
           (had_length && has_length) ||
           (!had_lastmod && !had_length && !hash.size && !has_lastmod &&
            !has_length && !now->hash.size);
}

/* Looks the resource up in the last reading. */
static bool
look_up(struct listing *l, const struct change *now, bool *is_known,
        bool *is_it)
{
    sqlite3_stmt *s = kept_statement(l, SQL_LOOK);
    bool is_good;

    db_bind_text(s, 1, now->loc);
    is_good = step_to_row(l, s, is_known);
    *is_it = *is_known && is_same(s, now);
    db_reset(s);
    return is_good;
}

/* Writes the entry into `line`; of an entry that is too long, loc, lastmod,
 * hash and length alone. */
static bool
write_fragment(struct listing *l, const struct document_entry *entry,
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
    return !fragment_write(&l->line, &bare, f, NULL) || fail_memory(l);
}

bool
listing_add(struct listing *l, const struct document_entry *entry)
{
    const struct change *now = &entry->change;
    sqlite3_stmt *s = kept_statement(l, SQL_SEE);
    struct fragment f;
    bool is_known;
    bool is_it;

    if (!look_up(l, now, &is_known, &is_it))
        return false;
    db_bind_text(s, 1, now->loc);
    sqlite3_bind_int64(s, 2, l->document);
    if (now->lastmod_us != DATETIME_NONE)
        sqlite3_bind_int64(s, 3, now->lastmod_us);
    db_bind_text(s, 4, now->hash);
    if (now->length != LENGTH_NONE)
        sqlite3_bind_int64(s, 5, (sqlite3_int64)now->length);
    buf_clear(&l->line);
    if (!is_it) {
        if (!write_fragment(l, entry,
                            is_known ? CHANGE_UPDATED : CHANGE_CREATED, &f))
            return false;
        sqlite3_bind_int64(s, 6, f.hole);
        db_bind_bytes(s, 7, (struct slice){l->line.data, f.size});
    }
    return run_statement(l, s) && has_room_for(l, now->loc.size + l->line.size);
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

static bool
see_unchanged(struct listing *l)
{
    bool is_good;

    l->is_seeing = true;
    is_good = has_room(l) && run_text(l, see_same);
    l->is_seeing = false;
    return is_good && has_allowed_size(l);
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

/* Writes where the history stands, deletes differences up to `oldest`, and
 * commits. */
static bool
commit_reading(struct listing *l, uint64_t oldest, uint64_t before,
               uint64_t last, int64_t when_us, uint64_t left_out)
{
    sqlite3_stmt *s = kept_statement(l, SQL_STAND);

    sqlite3_bind_int64(s, 1, (sqlite3_int64)oldest);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)before);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)last);
    sqlite3_bind_int64(s, 4, when_us);
    db_bind_text(s, 5, slice_of(l->extent.epoch));
    sqlite3_bind_int64(s, 6, (sqlite3_int64)left_out);
    if (!run_statement(l, s) ||
        !run_text(l, "DELETE FROM change"
                     " WHERE seq <= (SELECT oldest FROM listing)"
                     " OR seq > (SELECT last FROM listing)") ||
        !end_step(l, db_end(&l->db, STATUS_OK, &l->why)) || !count_resources(l))
        return false;
    l->extent.oldest = oldest;
    l->extent.last = last;
    l->extent.is_read = true;
    return run_text(l, "DELETE FROM seen; DELETE FROM read;");
}

/* True if no document with resources has changed, and none is missing. */
static bool
is_unchanged(struct listing *l, bool *is)
{
    uint64_t n;

    if (!ask_number(l,
                    "SELECT (SELECT count(*) FROM seen)"
                    " + (SELECT count(*) FROM resource WHERE document NOT IN"
                    "  (SELECT id FROM read WHERE is_same))",
                    &n))
        return false;
    *is = n == 0 && l->extent.is_read;
    return true;
}

bool
listing_take(struct listing *l)
{
    uint64_t last = l->extent.last + l->extent.is_read;
    uint64_t left_out;

    return see_unchanged(l) && ask_number(l, SUM_LEFT_OUT, &left_out) &&
           begin_transaction(l) && run_text(l, forget_unseen) &&
           run_text(l, replace) &&
           commit_reading(l, last, last, last, clock_now_us(), left_out);
}

/* A difference gets its number. */
static bool
write_change(struct listing *l, uint64_t seq, int64_t when_us,
             const struct fragment *f, const void *bytes)
{
    sqlite3_stmt *s = kept_statement(l, SQL_CHANGE);

    sqlite3_bind_int64(s, 1, (sqlite3_int64)seq);
    sqlite3_bind_int64(s, 2, when_us);
    sqlite3_bind_int64(s, 3, f->hole);
    db_bind_bytes(s, 4, (struct slice){bytes, f->size});
    return run_statement(l, s);
}

/* Numbers the created and updated resources, in the order of the list. */
static bool
write_changed(struct listing *l, uint64_t *seq, int64_t when_us)
{
    sqlite3_stmt *s = kept_statement(l, SQL_CHANGED);
    bool is_good;
    bool row;

    while ((is_good = step_to_row(l, s, &row)) && row) {
        struct slice bytes = db_column(s, 1);
        struct fragment f = {.hole = (uint32_t)sqlite3_column_int64(s, 0),
                             .size = (uint32_t)bytes.size};

        is_good = write_change(l, ++*seq, when_us, &f, bytes.data);
        if (!is_good)
            break;
    }
    db_reset(s);
    return is_good;
}

/* Numbers the deleted resources. */
static bool
write_deleted(struct listing *l, uint64_t *seq, int64_t when_us)
{
    sqlite3_stmt *s = kept_statement(l, SQL_DELETED);
    bool is_good;
    bool row;

    while ((is_good = step_to_row(l, s, &row)) && row) {
        struct fragment f;
        struct change gone;

        change_init(&gone);
        gone.kind = CHANGE_DELETED;
        gone.loc = db_column(s, 0);
        buf_clear(&l->line);
        is_good =
            (!fragment_write(&l->line, &gone, &f, NULL) || fail_memory(l)) &&
            write_change(l, ++*seq, when_us, &f, l->line.data);
        if (!is_good)
            break;
    }
    db_reset(s);
    return is_good;
}

bool
listing_is_too_much(uint64_t n, uint64_t n_of, int max_percent)
{
    return max_percent >= 0 && max_percent < 100 && n >= FEW &&
           (double)n * 100 > (double)n_of * (double)max_percent;
}

/* Decides whether the reading deletes what it lacks. `*left_out`: set to the
 * rows that the last reading whose deletions counted has left out. */
static bool
judge_deletions(struct listing *l, const struct listing_guard *guard,
                bool *is_held, uint64_t *left_out)
{
    uint64_t n;
    uint64_t n_left_out;

    if (!ask_number(l, "SELECT count(*) FROM resource WHERE " NOT_SEEN, &n) ||
        !ask_number(l, SUM_LEFT_OUT, &n_left_out) ||
        !ask_number(l, "SELECT left_out FROM listing", left_out))
        return false;
    *is_held =
        n > 0 && n > guard->accepts &&
        (guard->is_doubtful || n_left_out > *left_out ||
         listing_is_too_much(n, l->extent.n_resources, guard->max_percent));
    if (!*is_held && !guard->is_doubtful)
        *left_out = n_left_out;
    return true;
}

/* Sets the time of the differences: now, but not before earlier ones. */
static bool
find_time(struct listing *l, int64_t *when_us)
{
    uint64_t last = 0;

    *when_us = clock_now_us();
    if (!ask_number(l, "SELECT when_us FROM listing", &last))
        return false;
    if ((int64_t)last > *when_us)
        *when_us = (int64_t)last;
    return true;
}

bool
listing_compare(struct listing *l, const struct listing_guard *guard)
{
    uint64_t oldest = l->extent.oldest;
    uint64_t before = l->extent.last;
    uint64_t seq = before;
    uint64_t left_out;
    int64_t when_us;
    bool is_held;
    bool is;

    if (!is_unchanged(l, &is))
        return false;
    if (is)
        return true;
    if (!see_unchanged(l) || !judge_deletions(l, guard, &is_held, &left_out) ||
        !find_time(l, &when_us) || !begin_transaction(l) ||
        !write_changed(l, &seq, when_us) ||
        (!is_held && !write_deleted(l, &seq, when_us)) ||
        !run_text(l, is_held ? hold_unseen : forget_unseen) ||
        !run_text(l, replace))
        return false;
    /* Those that the reading before found are kept once more. */
    if (seq > before && !ask_number(l, "SELECT before FROM listing", &oldest))
        return false;
    if (seq == before && !ask_number(l, "SELECT before FROM listing", &before))
        return false;
    return commit_reading(l, oldest, before, seq, when_us, left_out);
}

bool
listing_clear(struct listing *l)
{
    l->extent.oldest = l->extent.last = l->extent.n_resources = 0;
    l->extent.is_read = false;
    if (!make_epoch(l) || !begin_transaction(l) ||
        !run_text(l, "DELETE FROM resource; DELETE FROM document;"
                     "DELETE FROM seen; DELETE FROM read;") ||
        !commit_reading(l, 0, 0, 0, 0, 0))
        return false;
    l->extent.is_read = false;
    return run_text(l, "UPDATE listing SET is_read = 0");
}

/* Differences */

struct handing {
    listing_change_fn *on_change;
    void *user;
};

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    const struct handing *h = user;

    (void)head;
    return h->on_change(entry, h->user) ? STATUS_OK : STATUS_STOPPED;
}

/* Feeds the row at hand to the reader, as an entry of a Change List. */
static bool
feed_row(struct listing *l, struct document *document, sqlite3_stmt *s,
         enum status *rc)
{
    struct slice bytes = db_column(s, 3);
    struct fragment f = {.hole = (uint32_t)sqlite3_column_int64(s, 2),
                         .size = (uint32_t)bytes.size,
                         .datetime_us = DATETIME_NONE};
    size_t size;

    buf_clear(&l->line);
    if (!bytes.data || f.hole > f.size ||
        !buf_room(&l->line, (size_t)f.size + FRAGMENT_STAMP_MAX))
        return fail_memory(l);
    size =
        fragment_stamp(l->line.data, bytes.data, &f, sqlite3_column_int64(s, 1),
                       (uint64_t)sqlite3_column_int64(s, 0));
    *rc = document_feed(document, (struct slice){l->line.data, size}, NULL);
    return true;
}

bool
listing_changes(struct listing *l, uint64_t after, unsigned n_most,
                listing_change_fn *on_change, void *user)
{
    static const struct document_events events = {.on_entry = on_entry};
    struct handing handing = {on_change, user};
    struct document *document = document_new("", &events, &handing);
    sqlite3_stmt *s = kept_statement(l, SQL_READ);
    enum status rc;
    bool is_good = true;
    bool row = true;

    if (!document)
        return fail_memory(l);
    rc =
        document_feed(document,
                      SLICE("<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS
                            "\" xmlns:td=\"" NS_TIDINGS "\">"),
                      NULL);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)after);
    sqlite3_bind_int64(s, 2, n_most);
    while (is_good && !rc && row) {
        is_good = step_to_row(l, s, &row);
        if (is_good && row)
            is_good = feed_row(l, document, s, &rc);
    }
    db_reset(s);
    if (is_good && !rc)
        rc = document_feed(document, SLICE("</urlset>"), NULL);
    if (is_good && !rc)
        rc = document_end(document, NULL);
    if (is_good && rc == STATUS_MEMORY) {
        is_good = fail_memory(l);
    } else if (is_good && rc && rc != STATUS_STOPPED) {
        db_fail(&l->db, STATUS_IO, &l->why, "the file is damaged");
        is_good = false;
    }
    document_free(document);
    return is_good;
}

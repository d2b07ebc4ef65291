#include "client/harvest/harvest_db.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "client/lib/temporary_file.h"

static const char *const steps[] = {
    "CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,"
    " position TEXT NOT NULL, target_position TEXT NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, position TEXT NOT NULL,"
    " made INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);",

    /* Version 1 did not store if the target is the relay's own. */
    "ALTER TABLE relay ADD COLUMN owns INTEGER NOT NULL DEFAULT 0;",

    /* Version 2 had one source, and did not know its resources. Its post had
     * the position after it. */
    "CREATE TABLE target (url TEXT NOT NULL, position TEXT NOT NULL,"
    " is_new INTEGER NOT NULL, adopter INTEGER NOT NULL);"
    "CREATE TABLE part (id INTEGER PRIMARY KEY, source TEXT NOT NULL,"
    " url TEXT NOT NULL UNIQUE, position TEXT NOT NULL,"
    " compared INTEGER NOT NULL, complete INTEGER NOT NULL,"
    " doubt TEXT NOT NULL);"
    "CREATE TABLE resource (loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " lastmod INTEGER, hash TEXT NOT NULL, length INTEGER, changed INTEGER,"
    " is_gone INTEGER NOT NULL, is_due INTEGER NOT NULL,"
    " is_held INTEGER NOT NULL,"
    " PRIMARY KEY (loc, part)) WITHOUT ROWID;"
    "CREATE INDEX due ON resource (part) WHERE is_due;"
    "CREATE INDEX held ON resource (part) WHERE is_held;"
    "CREATE INDEX stray ON resource (part) WHERE part = 0;"
    "INSERT INTO target SELECT target, target_position, 1, owns FROM relay;"
    "INSERT INTO part SELECT 1, source, source,"
    " coalesce((SELECT position FROM post), position), 0, 0, '' FROM relay;"
    "UPDATE post SET position = (SELECT position FROM relay);"
    "DROP TABLE relay;",

    "ALTER TABLE part ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;",

    /* Of OAI-PMH: a deletion names the record alone. loc NULL: none. */
    "CREATE TABLE record (part INTEGER NOT NULL, identifier TEXT NOT NULL,"
    " loc TEXT, pass INTEGER NOT NULL,"
    " PRIMARY KEY (part, identifier), UNIQUE (part, loc)) WITHOUT ROWID;",

    "ALTER TABLE target ADD COLUMN filter TEXT NOT NULL DEFAULT '';"

    "CREATE TABLE deferred (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " lastmod INTEGER, hash TEXT NOT NULL, length INTEGER,"
    " entry TEXT NOT NULL, UNIQUE (part, loc));",

    /* Version 6 took the last state in a list for the record's. */
    "ALTER TABLE record ADD COLUMN state INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE record ADD COLUMN stamp INTEGER;"
    "ALTER TABLE record ADD COLUMN known INTEGER;"
    "CREATE INDEX tomb ON record (part) WHERE state = 2 AND loc IS NOT NULL;",

    "ALTER TABLE part ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;",

    "ALTER TABLE part ADD COLUMN held_of INTEGER NOT NULL DEFAULT 0;",

    /* Version 9 did not note when it had reported: no report is another's. */
    ("ALTER TABLE target ADD COLUMN reported INTEGER NOT NULL DEFAULT 0;"
     "UPDATE target SET reported = 9223372036854775807;"),
};

/* Lists that are read now. */
static const char scratch[] =
    "PRAGMA temp_store = FILE;"
    "CREATE TEMP TABLE seen (loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " PRIMARY KEY (loc, part)) WITHOUT ROWID;"
    "CREATE TEMP TABLE disturbed (loc TEXT PRIMARY KEY, lastmod INTEGER,"
    " hash TEXT NOT NULL, length INTEGER, is_gone INTEGER NOT NULL)"
    " WITHOUT ROWID;";

static const struct db_kind kind = {
    .name = "the state of this harvest",
    .mode = DB_OWN,
    .application_id = 1415860837, /* "TdRe": of `tidings relay`, too */
    .steps = steps,
    .n_steps = N_ELEMENTS(steps),
    .opening = scratch,
};

/* Statements */

/* Changes rows, in the transaction that the next seal or note ends. True: it
 * has not failed. */
#define DO(h, ...) \
    (begin_rows(h) && !DB_DO(&(h)->db, NULL, (h)->why, __VA_ARGS__))

/* Reads the first row of a query, if it has one. */
#define FIND(h, sql, values, into) \
    (!db_find(&(h)->db, NULL, (h)->why, NULL, sql, values, into))

/* Begins a query. */
#define ROWS(h, ...) DB_SELECT(&(h)->db, NULL, (h)->why, __VA_ARGS__)

static bool
begin_rows(struct harvest_db *h)
{
    return !sqlite3_get_autocommit(h->db.handle) || !db_begin(&h->db, h->why);
}

static bool
commit_rows(struct harvest_db *h, bool is_good)
{
    enum status rc = is_good ? STATUS_OK : h->why->rc ? h->why->rc : STATUS_IO;

    return !db_end(&h->db, rc, h->why) && is_good;
}

/* The harvest never wrote this: somebody altered the file. */
static enum status
fail_damaged(struct harvest_db *h)
{
    return db_fail(&h->db, STATUS_MALFORMED, h->why, "the file is damaged");
}

/* A parameter with a time; NULL if that is DATETIME_NONE. */
#define TIME(parameter) "nullif(" parameter ", -9223372036854775808)"

/* Opening */

static bool
read_target(struct harvest_db *h, const char *target)
{
    struct slice url, position, filter;
    struct db_rows rows;

    if (DB_DO(&h->db, NULL, h->why,
              "INSERT INTO target SELECT ?1, '', 1, 0, '', 0"
              " WHERE NOT EXISTS (SELECT 1 FROM target)",
              target))
        return false;
    rows = ROWS(h, "SELECT url, position, is_new, adopter,"
                   " EXISTS (SELECT 1 FROM resource WHERE part = 0), filter,"
                   " reported FROM target");
    if (DB_NEXT(&rows, &url, &position, &h->is_new, &h->adopter, &h->has_strays,
                &filter, &h->reported_us)) {
        if (!url.size || !slice_copy(h->target, sizeof(h->target), position) ||
            !slice_copy(h->filter, sizeof(h->filter), filter))
            rows.rc = fail_damaged(h);
        else if (!slice_is(url, target))
            rows.rc =
                db_fail(&h->db, STATUS_INVALID, h->why,
                        "it is that of another set: %.*s", SLICE_ARG(url));
    }
    return !db_rows_end(&rows);
}

bool
harvest_db_open(struct harvest_db *h, const char *path, const char *target,
                bool is_dry, struct problem *why)
{
    *h = (struct harvest_db){.why = why,
                             .loc.max = SIZE_MAX / 2,
                             .hash.max = SIZE_MAX / 2,
                             .entry.max = SIZE_MAX / 2};
    snprintf(h->path, PATH_MAX, "%s", path);
    if (is_dry) {
        snprintf(h->scratch, PATH_MAX, "%s/tidings-harvest-XXXXXX",
                 temporary_directory());
        if (!mkdtemp(h->scratch))
            return !problem_errno(why, "cannot make", h->scratch);
        snprintf(h->path, PATH_MAX, "%.4000s/state", h->scratch);
        if (!access(path, F_OK) && db_copy(path, h->path, why))
            return false;
    }
    return !db_open_kind(&h->db, &kind, h->path, why) && read_target(h, target);
}

void
harvest_db_close(struct harvest_db *h)
{
    db_close(&h->db);
    if (h->scratch[0])
        (void)!file_clear(AT_FDCWD, h->scratch, NULL, NULL);
    buf_fini(&h->loc);
    buf_fini(&h->hash);
    buf_fini(&h->entry);
}

/* The set */

/* Commits all rows that changed, and the set's position; NULL: it stays. */
static bool
commit_target(struct harvest_db *h, bool is_good, const char *position)
{
    if (!commit_rows(
            h, is_good && (!position ||
                           DO(h, "UPDATE target SET position = ?1", position))))
        return false;
    if (position)
        snprintf(h->target, sizeof(h->target), "%s", position);
    h->is_behind = !position;
    return true;
}

bool
harvest_db_end_adoption(struct harvest_db *h, const char *position)
{
    h->is_new =
        !commit_target(h, DO(h, "UPDATE target SET is_new = 0"), position);
    return !h->is_new;
}

bool
harvest_db_note_report(struct harvest_db *h, int64_t us)
{
    h->reported_us = us;
    return commit_rows(h, DO(h, "UPDATE target SET reported = ?1", us));
}

bool
harvest_db_set_filter(struct harvest_db *h, struct slice filter)
{
    snprintf(h->filter, sizeof(h->filter), "%.*s", SLICE_ARG(filter));
    return commit_rows(h, DO(h, "UPDATE target SET filter = ?1", filter) &&
                              DO(h, "UPDATE part SET complete = 0, doubt = ?1",
                                 HARVEST_REFILTERED));
}

bool
harvest_db_forget(struct harvest_db *h)
{
    if (!begin_rows(h) ||
        !commit_rows(h, !db_exec(&h->db,
                                 "DELETE FROM resource; DELETE FROM post;"
                                 "DELETE FROM deferred;"
                                 "UPDATE part SET position = '', compared = 0,"
                                 " complete = 0, doubt = '';"
                                 "UPDATE target SET position = '', is_new = 0;",
                                 h->why)))
        return false;
    h->target[0] = '\0';
    h->is_behind = true;
    h->is_new = h->has_strays = false;
    return true;
}

/* Parts */

bool
harvest_db_part(struct harvest_db *h, const char *source, const char *url,
                struct harvest_part *part)
{
    struct slice position, doubt;
    struct db_rows rows;

    if (DB_DO(&h->db, NULL, h->why,
              "INSERT INTO part SELECT NULL, ?1, ?2, '', 0, 0, '', 0, 0, 0"
              " WHERE NOT EXISTS (SELECT 1 FROM part WHERE url = ?2)",
              source, url))
        return false;
    rows = ROWS(h,
                "SELECT id, position, listed, compared, complete, left_out,"
                " held_of, doubt FROM part WHERE url = ?1",
                url);
    if (DB_NEXT(&rows, &part->id, &position, &part->listed_us,
                &part->compared_us, &part->complete_us, &part->n_left_out,
                &part->n_held_of, &doubt) &&
        (!slice_copy(part->position, sizeof(part->position), position) ||
         !slice_copy(part->doubt, sizeof(part->doubt), doubt)))
        rows.rc = fail_damaged(h);
    return !db_rows_end(&rows);
}

static bool
write_part(struct harvest_db *h, const struct harvest_part *part)
{
    return DO(h,
              "UPDATE part SET position = ?2, compared = ?3, complete = ?4,"
              " doubt = ?5, listed = ?6, left_out = ?7, held_of = ?8"
              " WHERE id = ?1",
              part->id, slice_of(part->position), part->compared_us,
              part->complete_us, slice_of(part->doubt), part->listed_us,
              part->n_left_out, part->n_held_of);
}

bool
harvest_db_note_part(struct harvest_db *h, const struct harvest_part *part)
{
    return commit_rows(h, write_part(h, part));
}

struct db_rows
harvest_db_sources(struct harvest_db *h)
{
    return ROWS(h, "SELECT DISTINCT source FROM part");
}

/* Resources */

bool
harvest_db_look(struct harvest_db *h, int64_t part,
                const struct harvest_resource *r, struct harvest_known *known)
{
    struct db_rows rows =
        ROWS(h,
             "SELECT part, " SURVEY_RESOURCE_READ ","
             " coalesce(changed, -9223372036854775808), is_gone, is_due"
             " FROM resource WHERE loc = ?1",
             r->loc);
    struct survey_resource had;
    int64_t its, changed_us;
    bool is_gone, is_due;

    *known = (struct harvest_known){.changed_us = DATETIME_NONE};
    while (DB_NEXT(&rows, &its, SURVEY_RESOURCE_INTO(&had), &changed_us,
                   &is_gone, &is_due)) {
        bool is_proven;
        bool is_alike = survey_resources_agree(&had, &r->version, &is_proven) &&
                        !is_gone && !is_due;

        known->is_known |= !is_gone;
        if (its == part) {
            known->is_there = !is_gone;
            known->is_like = is_alike;
            known->is_same = is_alike && is_proven;
            known->changed_us = changed_us;
        } else if (!is_gone) {
            known->is_elsewhere |= its != 0;
            known->is_same_there |= is_alike && is_proven;
        }
    }
    return !db_rows_end(&rows);
}

static bool
write_row(struct harvest_db *h, int64_t part, struct slice loc,
          const struct survey_resource *version, int64_t changed_us,
          bool is_gone)
{
    return DO(h,
              "INSERT OR REPLACE INTO resource"
              " VALUES (?, ?, " SURVEY_RESOURCE_WRITTEN
              ", " TIME("?") ", ?, 0, 0)",
              loc, part, SURVEY_RESOURCE_OF(version), changed_us, is_gone);
}

#define UNDEFER "DELETE FROM deferred WHERE part = ?1 AND loc = ?2"

static bool
remove_row(struct harvest_db *h, int64_t part, struct slice loc)
{
    return DO(h, "DELETE FROM resource WHERE loc = ?1 AND part = ?2", loc,
              part);
}

bool
harvest_db_keep(struct harvest_db *h, int64_t part,
                const struct harvest_resource *r, int64_t changed_us)
{
    if (part == 0)
        h->has_strays = true;
    else if (h->has_strays && !remove_row(h, 0, r->loc))
        return false;
    return DO(h, UNDEFER, part, r->loc) &&
           write_row(h, part, r->loc, &r->version, changed_us, false);
}

bool
harvest_db_remove(struct harvest_db *h, int64_t part, struct slice loc,
                  int64_t changed_us)
{
    if ((h->has_strays && !remove_row(h, 0, loc)) || !DO(h, UNDEFER, part, loc))
        return false;
    return changed_us == DATETIME_NONE
               ? remove_row(h, part, loc)
               : write_row(h, part, loc, &survey_resource_unknown, changed_us,
                           true);
}

bool
harvest_db_disturb(struct harvest_db *h, struct slice loc,
                   const struct survey_resource *version)
{
    bool is_gone = !version;

    if (is_gone)
        version = &survey_resource_unknown;
    return DO(h,
              "INSERT OR REPLACE INTO disturbed VALUES "
              "(?, " SURVEY_RESOURCE_WRITTEN ", ?)",
              loc, SURVEY_RESOURCE_OF(version), is_gone);
}

bool
harvest_db_end_disturbance(struct harvest_db *h, const char *position)
{
    static const char mark[] =
        "UPDATE resource SET is_due = 1 FROM disturbed d"
        " WHERE d.loc = resource.loc AND part > 0 AND NOT resource.is_gone"
        " AND (d.is_gone OR d.lastmod <> resource.lastmod"
        " OR d.length <> resource.length"
        " OR (d.hash <> '' AND resource.hash <> ''"
        " AND d.hash <> resource.hash));"
        "DELETE FROM disturbed;";

    return commit_target(h, begin_rows(h) && !db_exec(&h->db, mark, h->why),
                         position);
}

bool
harvest_db_is_due(struct harvest_db *h, int64_t part, bool *is_due)
{
    return FIND(h,
                "SELECT EXISTS (SELECT 1 FROM resource"
                " WHERE is_due AND part = ?1)",
                DB_VALUES(part), DB_INTO(is_due));
}

bool
harvest_db_count(struct harvest_db *h, int64_t part, uint64_t *n)
{
    *n = 0;
    return (part == 0 && !h->has_strays) ||
           FIND(h,
                "SELECT count(*) FROM resource WHERE part = ?1"
                " AND NOT is_gone",
                DB_VALUES(part), DB_INTO(n));
}

/* Records */

bool
harvest_db_record(struct harvest_db *h, int64_t part, struct slice identifier,
                  struct slice loc, int64_t pass, struct harvest_record *record)
{
    return FIND(h,
                "SELECT r.loc, r.pass, r.state,"
                " coalesce(r.stamp, -9223372036854775808),"
                " coalesce(r.known, -9223372036854775808), EXISTS (SELECT 1"
                " FROM record WHERE part = ?1 AND loc = ?3"
                " AND identifier <> ?2 AND pass = ?4 AND state <> 2)"
                " FROM (SELECT 1) LEFT JOIN record r"
                " ON r.part = ?1 AND r.identifier = ?2",
                DB_VALUES(part, identifier, loc, pass),
                DB_INTO(&record->loc, &record->pass, &record->state,
                        &record->stamp_us, &record->known_us,
                        &record->is_taken));
}

bool
harvest_db_note_record(struct harvest_db *h, int64_t part,
                       struct slice identifier, struct slice loc,
                       const struct harvest_record *record)
{
    return DO(h,
              "INSERT OR REPLACE INTO record VALUES (?, ?, nullif(?, ''), ?,"
              " ?, " TIME("?") ", " TIME("?") ")",
              part, identifier, loc, record->pass, record->state,
              record->stamp_us, record->known_us);
}

/* Tombstones that wait for the end of the pass. */
#define TOMBS " WHERE part = ?1 AND state = 2 AND loc IS NOT NULL"

bool
harvest_db_drop_tombs(struct harvest_db *h, int64_t part, bool are_all)
{
    return DO(h,
              "UPDATE record SET state = 0" TOMBS
              " AND (?2 OR NOT coalesce(stamp > known, known IS NULL))",
              part, are_all);
}

bool
harvest_db_forget_stamps(struct harvest_db *h, int64_t part)
{
    return DO(h,
              "UPDATE record SET stamp = NULL, known = NULL"
              " WHERE part = ?1 AND state = 3",
              part);
}

/* Lists */

static bool
forget_seen(struct harvest_db *h, int64_t part)
{
    return DO(h, "DELETE FROM seen WHERE part = ?1", part);
}

bool
harvest_db_begin_list(struct harvest_db *h, int64_t part, uint64_t *n_before)
{
    return harvest_db_count(h, part, n_before) && forget_seen(h, part) &&
           DO(h, "DELETE FROM deferred WHERE part = ?1", part);
}

bool
harvest_db_list(struct harvest_db *h, int64_t part, struct slice loc,
                bool is_listed)
{
    return DO(h,
              is_listed ? "INSERT OR IGNORE INTO seen VALUES (?1, ?2)"
                        : "DELETE FROM seen WHERE loc = ?1 AND part = ?2",
              loc, part);
}

bool
harvest_db_defer(struct harvest_db *h, int64_t part,
                 const struct harvest_resource *r)
{
    return DO(h,
              "INSERT OR REPLACE INTO deferred VALUES (NULL, "
              "?, ?, " SURVEY_RESOURCE_WRITTEN ", ?)",
              r->loc, part, SURVEY_RESOURCE_OF(&r->version), r->entry);
}

#define IS_AFTER "coalesce(changed > " TIME("?2") ", 0)"

bool
harvest_db_end_list(struct harvest_db *h, int64_t part, int64_t as_of_us,
                    uint64_t *n, bool *is_empty)
{
    return FIND(h, "SELECT NOT EXISTS (SELECT 1 FROM seen WHERE part = ?1)",
                DB_VALUES(part), DB_INTO(is_empty)) &&
           DO(h, "UPDATE resource SET is_held = 0 WHERE part = ?1 AND is_held",
              part) &&
           DO(h,
              "UPDATE resource SET is_held = 1"
              " WHERE part = ?1 AND NOT is_gone AND NOT " IS_AFTER
              " AND NOT EXISTS (SELECT 1 FROM seen s"
              " WHERE s.loc = resource.loc AND s.part = ?1)",
              part, as_of_us) &&
           DO(h,
              "DELETE FROM resource WHERE part = ?1 AND is_gone"
              " AND NOT " IS_AFTER,
              part, as_of_us) &&
           forget_seen(h, part) && harvest_db_waiting(h, QUEUE_HELD, part, n);
}

/* Queues */

static const struct {
    const char *first; /* selects loc, entry and version */
    const char *take;  /* NULL: it leaves the queue with its resource */
    const char *count;
} queues[] = {
    [QUEUE_HELD] = {"SELECT loc, '', 0, '', 0 FROM resource"
                    " WHERE part = ?1 AND is_held LIMIT 1",
                    NULL,
                    "SELECT count(*) FROM resource"
                    " WHERE part = ?1 AND is_held"},
    [QUEUE_DEFERRED] = {"SELECT loc, entry, " SURVEY_RESOURCE_READ
                        " FROM deferred WHERE part = ?1 ORDER BY id LIMIT 1",
                        UNDEFER,
                        "SELECT count(*) FROM deferred WHERE part = ?1"},
    [QUEUE_TOMBS] = {"SELECT loc, '', 0, '', 0 FROM record" TOMBS " LIMIT 1",
                     "UPDATE record SET loc = NULL"
                     " WHERE part = ?1 AND loc = ?2"},
};

bool
harvest_db_waiting(struct harvest_db *h, enum harvest_queue queue, int64_t part,
                   uint64_t *n)
{
    return FIND(h, queues[queue].count, DB_VALUES(part), DB_INTO(n));
}

bool
harvest_db_next(struct harvest_db *h, enum harvest_queue queue, int64_t part,
                struct harvest_resource *next)
{
    const char *take = queues[queue].take;

    buf_clear(&h->loc);
    buf_clear(&h->hash);
    buf_clear(&h->entry);
    if (!FIND(h, queues[queue].first, DB_VALUES(part),
              DB_INTO(&h->loc, &h->entry, &next->version.lastmod_us, &h->hash,
                      &next->version.length)))
        return false;
    if (h->loc.failed || h->entry.failed || h->hash.failed)
        return !problem_memory(h->why);
    next->loc = buf_slice(&h->loc);
    next->entry = buf_slice(&h->entry);
    next->version.hash = buf_slice(&h->hash);
    return !take || !next->loc.size || DO(h, take, part, next->loc);
}

/* Posts */

/* Makes the key of a post: of the set's position before it, and of the post. So
 * harvesters of one source that work at the same time, each with a state,
 * make posts that the broker keeps once. By chance, if others may have posted
 * since, or if it has the bytes of copies. */
static bool
make_key(struct harvest_db *h, struct slice body, char key[HARVEST_KEY_SIZE])
{
    struct digest digest;

    if (h->is_behind || slice_starts(body, "-"))
        return random_hex(key, HARVEST_KEY_SIZE) ||
               !problem(h->why, STATUS_IO, "no random numbers");
    digest_sha256(&digest, slice_of(h->target));
    digest_add(&digest, body);
    memcpy(key, digest_text(&digest).text + DIGEST_TEXT_SIZE - 64,
           HARVEST_KEY_SIZE - 1);
    key[HARVEST_KEY_SIZE - 1] = '\0';
    return true;
}

bool
harvest_db_seal(struct harvest_db *h, struct harvest_part *part,
                struct slice body, size_t n, const char *position)
{
    struct harvest_part next = *part;
    char key[HARVEST_KEY_SIZE];

    if (!make_key(h, body, key))
        return false;
    if (position)
        snprintf(next.position, sizeof(next.position), "%s", position);
    if (!commit_rows(h, DO(h, "INSERT INTO post VALUES (?1, ?2, ?3, ?4, ?5)",
                           slice_of(key), slice_of(part->position),
                           clock_now_us() / 1000000, n, db_blob(body)) &&
                            write_part(h, &next)))
        return false;
    *part = next;
    return true;
}

bool
harvest_db_unfinished(struct harvest_db *h, struct harvest_post *post,
                      bool *is_there)
{
    struct db_rows rows =
        ROWS(h, "SELECT key, position, made, n, body FROM post");
    struct slice key, before, body;
    uint64_t n;

    post->body = NULL;
    if (DB_NEXT(&rows, &key, &before, &post->made_s, &n, &body)) {
        post->n = (size_t)n;
        post->size = body.size;
        /* An entry has at least one byte. */
        if (!slice_copy(post->key, sizeof(post->key), key) ||
            !slice_copy(post->before, sizeof(post->before), before) || n == 0 ||
            n > body.size)
            rows.rc = fail_damaged(h);
        else if (!(post->body = slice_dup(body)))
            rows.rc = problem_memory(h->why);
        post->changes = (struct slice){post->body, post->size};
        if (post->body && post->body[0] == '-') /* "--BOUNDARY" */
            slice_skip_past(&post->changes, "\r\n\r\n");
    }
    *is_there = post->body;
    return !db_rows_end(&rows);
}

bool
harvest_db_posted(struct harvest_db *h, const char *target)
{
    return commit_target(h, DO(h, "DELETE FROM post"), target);
}

#include "broker/state/resource_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/state/resources.h"
#include "proto/memory.h"

/* Rows per step. */
#define STEP_ROWS 10000

#define WHAT "compare with the state"

/* differences: `staged` is the id of a created or updated resource, `fragment`
 * the entry of a deleted one, with its `hole`. */
static const char *const tables =
    "CREATE TABLE news(key BLOB PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE differences("
    " n INTEGER PRIMARY KEY, kind INTEGER NOT NULL, key BLOB NOT NULL,"
    " staged INTEGER, hole INTEGER, fragment BLOB)";

/* The state of a set that does not exist has no resources. */
static const char *const no_state =
    "ATTACH ':memory:' AS state;"
    "CREATE TABLE state.resources("
    " id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, entry BLOB NOT NULL);"
    "CREATE TABLE state.keys("
    " key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID";

struct resource_diff {
    char work[UPLOAD_FILE_PATH_MAX];
    struct db db;
    struct upload_file_about about;
    struct resource_diff_counts told;
    bool is_holding;              /* resource_diff_hold */
    uint64_t n_changed;           /* resource_diff_changed */
    uint64_t staged;              /* compared so far, by id */
    bool is_staged_done;          /* then comes the state, by key */
    struct resource_key compared; /* the last compared key of the state */
    bool has_compared;
    int64_t given; /* the number of the last returned difference */
    struct buf deleted;
};

/* Opening */

static enum status
attach_database(struct resource_diff *d, const char *path, const char *attach,
                const char *limit, struct problem *why)
{
    enum status rc = DB_DO(&d->db, WHAT, why, attach, path);

    return rc ? rc : db_exec(&d->db, limit, why);
}

static enum status
read_about(struct resource_diff *d, struct problem *why)
{
    struct upload_file_about *about = &d->about;
    bool is_there;
    /* `accepted` and `left_out` are NULL, and so 0, in a file of an earlier
     * version. */
    enum status rc = db_find(
        &d->db, WHAT, why, &is_there, "SELECT * FROM up.about", DB_VALUES(),
        DB_INTO(&about->epoch, &about->after, &about->max_delete, &about->n,
                &about->accepted, &about->left_out));

    return rc || is_there ? rc
                          : problem(why, STATUS_IO,
                                    "what arrived does not say whose it is");
}

/* The file is worthless after a crash: no journal, no fsync. */
static enum status
open_work(struct resource_diff *d, struct problem *why)
{
    enum status rc;

    unlink(d->work);
    rc = db_open(&d->db, d->work, DB_SMALL, why);
    if (!rc)
        rc = db_exec(&d->db, "PRAGMA journal_mode=OFF", why);
    if (!rc)
        rc = db_exec(&d->db, "PRAGMA synchronous=OFF", why);
    if (!rc) /* the WAL of the state belongs to its owner */
        sqlite3_db_config(d->db.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                          NULL);
    return rc ? rc : db_exec(&d->db, tables, why);
}

enum status
resource_diff_open(struct resource_diff **difference, const char *dir,
                   const char *name, struct problem *why)
{
    struct resource_diff *d = memory_new(1, sizeof(*d));
    char path[UPLOAD_FILE_PATH_MAX];
    bool is_taken;
    enum status rc;

    buf_init(&d->deleted, FRAGMENT_MAX);
    snprintf(d->work, sizeof(d->work), "%s/%s.work", dir, name);
    rc = upload_file_path(dir, name, path, &is_taken);
    if (rc)
        rc = problem(why, rc, "what arrived of %s is not there", name);
    if (!rc)
        rc = open_work(d, why);
    if (!rc)
        rc = attach_database(d, path, "ATTACH ? AS up",
                             "PRAGMA up.cache_size=-8192", why);
    if (!rc)
        rc = read_about(d, why);
    if (rc)
        resource_diff_close(d);
    else
        *difference = d;
    return rc;
}

void
resource_diff_close(struct resource_diff *d)
{
    if (!d)
        return;
    if (d->db.handle)
        db_close(&d->db);
    unlink(d->work);
    buf_fini(&d->deleted);
    free(d);
}

void
resource_diff_heed(struct resource_diff *d, const atomic_bool *is_ending)
{
    db_heed(&d->db, is_ending);
}

const struct upload_file_about *
resource_diff_about(const struct resource_diff *d)
{
    return &d->about;
}

enum status
resource_diff_state(struct resource_diff *d, const char *path,
                    struct problem *why)
{
    return path ? attach_database(d, path, "ATTACH ? AS state",
                                  "PRAGMA state.cache_size=-8192", why)
                : db_exec(&d->db, no_state, why);
}

/* News */

enum status
resource_diff_news(struct resource_diff *d, struct slice loc,
                   struct problem *why)
{
    struct resource_key key;

    resource_key(&key, loc);
    return DB_DO(&d->db, WHAT, why, "INSERT OR IGNORE INTO news(key) VALUES(?)",
                 db_bytes(&key, sizeof(key)));
}

/* Comparing */

/* True if the state has a newer change than the body. The log may no longer
 * have that change. */
static bool
is_newer(const struct resource_diff *d, uint64_t seq)
{
    return seq > d->about.after;
}

static enum status
compare_staged(struct resource_diff *d, uint64_t id, uint32_t hole,
               struct slice fragment, struct problem *why)
{
    struct resource_key key;
    struct db_rows rows;
    struct slice entry;
    uint64_t seq;
    bool is_there, is_same = false, is_left = false;
    enum status rc;

    resource_key(&key, fragment_loc(fragment));
    rows = DB_SELECT(&d->db, WHAT, why,
                     "SELECT r.seq, r.entry FROM state.keys k"
                     " JOIN state.resources r ON r.id=k.id WHERE k.key=?",
                     db_bytes(&key, sizeof(key)));
    is_there = DB_NEXT(&rows, &seq, &entry);
    if (is_there) {
        is_same = fragment_is_resource(fragment, hole, entry);
        is_left = is_newer(d, seq);
        d->n_changed += is_left;
        is_left = is_left && !is_same;
    }
    rc = db_rows_end(&rows);
    d->told.newer += is_left;
    d->told.unchanged += is_same;
    return rc || is_same || is_left
               ? rc
               : DB_DO(&d->db, WHAT, why,
                       "INSERT INTO differences(kind, key, staged)"
                       " VALUES(?,?,?)",
                       is_there ? CHANGE_UPDATED : CHANGE_CREATED,
                       db_bytes(&key, sizeof(key)), id);
}

static enum status
compare_some_staged(struct resource_diff *d, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&d->db, WHAT, why,
                  "SELECT id, hole, fragment FROM up.staged WHERE id>?"
                  " ORDER BY id LIMIT ?",
                  d->staged, STEP_ROWS);
    struct slice fragment;
    uint32_t hole;
    unsigned n = 0;

    while (DB_NEXT(&rows, &d->staged, &hole, &fragment)) {
        n++;
        rows.rc = compare_staged(d, d->staged, hole, fragment, why);
    }
    d->is_staged_done = n < STEP_ROWS;
    return db_rows_end(&rows);
}

/* Handles a resource that only the state has. */
static enum status
compare_missing(struct resource_diff *d, int64_t id, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&d->db, WHAT, why,
                  "SELECT seq, entry FROM state.resources WHERE id=?", id);
    struct fragment fragment;
    struct slice entry;
    uint64_t seq;
    bool is_left = false;
    enum status rc;

    if (DB_NEXT(&rows, &seq, &entry)) {
        is_left = is_newer(d, seq);
        buf_clear(&d->deleted);
        fragment_write_deleted(&d->deleted, entry, &fragment);
    } else if (!rows.rc) {
        rows.rc = problem(why, STATUS_IO, "the state lacks a row");
    }
    rc = db_rows_end(&rows);
    d->told.newer += is_left;
    d->n_changed += is_left;
    if (rc || is_left)
        return rc;
    if (d->deleted.failed)
        return problem_memory(why);
    return DB_DO(&d->db, WHAT, why,
                 "INSERT INTO differences(kind, key, hole, fragment)"
                 " VALUES(?,?,?,?)",
                 CHANGE_DELETED, db_bytes(&d->compared, sizeof(d->compared)),
                 fragment.hole, db_blob(buf_slice(&d->deleted)));
}

static enum status
compare_some_of_state(struct resource_diff *d, bool *is_more,
                      struct problem *why)
{
    const struct resource_key from = d->compared; /* d->compared changes */
    struct db_rows rows = DB_SELECT(
        &d->db, WHAT, why,
        "SELECT k.key, k.id,"
        " EXISTS(SELECT 1 FROM up.keys u WHERE u.key=k.key)"
        " FROM state.keys k WHERE k.key>? ORDER BY k.key LIMIT ?",
        db_bytes(&from, d->has_compared ? sizeof(from) : 0), STEP_ROWS);
    struct slice key;
    bool is_in_both;
    unsigned n = 0;
    int64_t id;

    while (DB_NEXT(&rows, &key, &id, &is_in_both)) {
        n++;
        if (key.size != sizeof(d->compared)) {
            rows.rc = problem(why, STATUS_IO,
                              "the state has a key of %zu bytes", key.size);
            break;
        }
        memcpy(&d->compared, key.data, key.size);
        d->has_compared = true;
        if (!is_in_both)
            rows.rc = compare_missing(d, id, why);
    }
    *is_more = n == STEP_ROWS;
    return db_rows_end(&rows);
}

enum status
resource_diff_compare(struct resource_diff *d, bool *is_more,
                      struct problem *why)
{
    enum status rc = db_exec(&d->db, "BEGIN", why);

    *is_more = true;
    if (rc)
        return rc;
    rc = d->is_staged_done ? compare_some_of_state(d, is_more, why)
                           : compare_some_staged(d, why);
    return rc ? rc : db_exec(&d->db, "COMMIT", why);
}

/* The results */

static void
count_one(const struct resource_diff *d, struct resource_diff_counts *counts,
          enum change_kind kind, bool is_news)
{
    if (is_news)
        counts->newer++;
    else if (kind == CHANGE_DELETED && d->is_holding)
        counts->held_back++;
    else if (kind == CHANGE_CREATED)
        counts->created++;
    else if (kind == CHANGE_UPDATED)
        counts->updated++;
    else
        counts->deleted++;
}

enum status
resource_diff_count(struct resource_diff *d,
                    struct resource_diff_counts *counts, struct problem *why)
{
    /* Without GROUP BY, which would sort in a temporary file. */
    struct db_rows rows =
        DB_SELECT(&d->db, WHAT, why,
                  "SELECT kind, EXISTS(SELECT 1 FROM news"
                  " WHERE news.key=differences.key) FROM differences");
    enum change_kind kind;
    bool is_news;

    *counts = (struct resource_diff_counts){.unchanged = d->told.unchanged,
                                            .newer = d->told.newer};
    while (DB_NEXT(&rows, &kind, &is_news))
        count_one(d, counts, kind, is_news);
    return db_rows_end(&rows);
}

uint64_t
resource_diff_changed(const struct resource_diff *d)
{
    return d->n_changed;
}

void
resource_diff_hold(struct resource_diff *d)
{
    d->is_holding = true;
}

const struct resource_diff_counts *
resource_diff_told(const struct resource_diff *d)
{
    return &d->told;
}

/* Returns false if there is no room for it. */
static bool
put_change(struct resource_diff_part *part, enum change_kind kind,
           uint32_t hole, struct slice fragment)
{
    size_t start = part->bytes.size;

    if (part->n > 0 && start + fragment.size > part->bytes.max)
        return false;
    buf_add_slice(&part->bytes, fragment);
    if (!part->bytes.failed)
        fragment_set_kind(part->bytes.data + start, hole, kind);
    part->fragments[part->n++] = (struct fragment){
        .size = (uint32_t)fragment.size,
        .hole = hole,
        .datetime_us = DATETIME_NONE,
    };
    return true;
}

enum status
resource_diff_next(struct resource_diff *d, struct resource_diff_part *part,
                   struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        &d->db, WHAT, why,
        "SELECT d.n, d.kind, EXISTS(SELECT 1 FROM news WHERE news.key=d.key),"
        " ifnull(s.hole, d.hole), ifnull(s.fragment, d.fragment)"
        " FROM differences d LEFT JOIN up.staged s ON s.id=d.staged"
        " WHERE d.n>? ORDER BY d.n",
        d->given);
    enum change_kind kind;
    struct slice fragment;
    uint32_t hole;
    bool is_news;
    int64_t n;

    buf_clear(&part->bytes);
    part->n = 0;
    while (part->n < part->max &&
           DB_NEXT(&rows, &n, &kind, &is_news, &hole, &fragment)) {
        if (!is_news && !(kind == CHANGE_DELETED && d->is_holding) &&
            !put_change(part, kind, hole, fragment))
            break;
        count_one(d, &d->told, kind, is_news);
        d->given = n;
    }
    if (!rows.rc && part->bytes.failed)
        rows.rc = problem_memory(why);
    return db_rows_end(&rows);
}

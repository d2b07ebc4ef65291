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

enum difference_statement {
    D_NEWS,
    D_IS_NEWS,
    D_STAGED, /* some of the source's resources, in its order */
    D_FIND,   /* a resource of the state */
    D_KEYS,   /* some of the state, and whether the source has them */
    D_ENTRY,  /* an entry of the state */
    D_ADD,
    D_COUNT,
    D_NEXT,
    D_STATEMENTS
};

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

static const char *const sql[D_STATEMENTS] = {
    [D_NEWS] = "INSERT OR IGNORE INTO news(key) VALUES(?)",
    [D_IS_NEWS] = "SELECT 1 FROM news WHERE key=?",
    [D_STAGED] = ("SELECT id, hole, fragment FROM up.staged WHERE id>?1"
                  " ORDER BY id LIMIT ?2"),
    [D_FIND] = ("SELECT r.seq, r.entry FROM state.keys k"
                " JOIN state.resources r ON r.id=k.id WHERE k.key=?"),
    [D_KEYS] = ("SELECT k.key, k.id,"
                " EXISTS(SELECT 1 FROM up.keys u WHERE u.key=k.key)"
                " FROM state.keys k WHERE k.key>?1 ORDER BY k.key LIMIT ?2"),
    [D_ENTRY] = "SELECT seq, entry FROM state.resources WHERE id=?",
    [D_ADD] = ("INSERT INTO differences(kind, key, staged, hole, fragment)"
               " VALUES(?,?,?,?,?)"),
    /* Without GROUP BY, which would sort in a temporary file. */
    [D_COUNT] = ("SELECT kind, EXISTS(SELECT 1 FROM news"
                 " WHERE news.key=differences.key) FROM differences"),
    [D_NEXT] = ("SELECT d.n, d.kind, d.key, ifnull(s.hole, d.hole),"
                " ifnull(s.fragment, d.fragment) FROM differences d"
                " LEFT JOIN up.staged s ON s.id=d.staged"
                " WHERE d.n>? ORDER BY d.n"),
};

struct resource_diff {
    char work[UPLOAD_FILE_PATH_MAX];
    struct db db;
    sqlite3_stmt *statements[D_STATEMENTS];
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
attach_database(struct resource_diff *d, const char *path, const char *as,
                struct problem *why)
{
    char text[64];
    sqlite3_stmt *q = NULL;
    enum status rc;

    snprintf(text, sizeof(text), "ATTACH ? AS %s", as);
    rc = db_prepare(&d->db, &q, text, why);
    if (rc)
        return rc;
    sqlite3_bind_text(q, 1, path, -1, SQLITE_STATIC);
    rc = db_run(&d->db, q, WHAT, why);
    sqlite3_finalize(q);
    snprintf(text, sizeof(text), "PRAGMA %s.cache_size=-8192", as);
    return rc ? rc : db_exec(&d->db, text, why);
}

static enum status
read_about(struct resource_diff *d, struct problem *why)
{
    sqlite3_stmt *q = NULL;
    bool row = false;
    enum status rc = db_prepare(&d->db, &q, "SELECT * FROM up.about", why);

    if (!rc)
        rc = db_step(&d->db, q, &row, WHAT, why);
    if (!rc && !row)
        rc = problem(why, STATUS_IO, "what arrived does not say whose it is");
    if (!rc) {
        db_text(q, 0, d->about.epoch, sizeof(d->about.epoch));
        d->about.after = (uint64_t)sqlite3_column_int64(q, 1);
        d->about.max_delete = (unsigned)sqlite3_column_int(q, 2);
        d->about.n = (uint64_t)sqlite3_column_int64(q, 3);
        /* NULL, and so 0, in a file of an earlier version. */
        d->about.accepted = (uint64_t)sqlite3_column_int64(q, 4);
        d->about.left_out = (uint64_t)sqlite3_column_int64(q, 5);
    }
    sqlite3_finalize(q);
    return rc;
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
        rc = attach_database(d, path, "up", why);
    if (!rc)
        rc = read_about(d, why);
    for (int i = D_NEWS; !rc && i <= D_IS_NEWS; i++)
        rc = db_prepare(&d->db, &d->statements[i], sql[i], why);
    if (rc) {
        resource_diff_close(d);
        return rc;
    }
    *difference = d;
    return STATUS_OK;
}

void
resource_diff_close(struct resource_diff *d)
{
    if (!d)
        return;
    for (int i = 0; i < D_STATEMENTS; i++)
        sqlite3_finalize(d->statements[i]);
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
    enum status rc = path ? attach_database(d, path, "state", why)
                          : db_exec(&d->db, no_state, why);

    for (int i = D_IS_NEWS + 1; !rc && i < D_STATEMENTS; i++)
        rc = db_prepare(&d->db, &d->statements[i], sql[i], why);
    return rc;
}

/* News */

static void
bind_key(sqlite3_stmt *q, int n, const struct resource_key *key)
{
    sqlite3_bind_blob(q, n, key, sizeof(*key), SQLITE_STATIC);
}

enum status
resource_diff_news(struct resource_diff *d, struct slice loc,
                   struct problem *why)
{
    struct resource_key key;

    resource_key(&key, loc);
    bind_key(d->statements[D_NEWS], 1, &key);
    return db_run(&d->db, d->statements[D_NEWS], WHAT, why);
}

static enum status
look_for_news(struct resource_diff *d, const struct resource_key *key,
              bool *is_news, struct problem *why)
{
    sqlite3_stmt *q = d->statements[D_IS_NEWS];
    enum status rc;

    bind_key(q, 1, key);
    rc = db_step(&d->db, q, is_news, WHAT, why);
    sqlite3_reset(q);
    return rc;
}

/* Comparing */

struct found {
    enum change_kind kind;
    const struct resource_key *key;
    int64_t staged;
    const struct fragment *fragment; /* of a deleted resource, in d->deleted */
};

static enum status
add_difference(struct resource_diff *d, const struct found *found,
               struct problem *why)
{
    sqlite3_stmt *q = d->statements[D_ADD];

    sqlite3_clear_bindings(q);
    sqlite3_bind_int(q, 1, (int)found->kind);
    bind_key(q, 2, found->key);
    if (found->fragment) {
        sqlite3_bind_int64(q, 4, found->fragment->hole);
        sqlite3_bind_blob64(q, 5, d->deleted.data, d->deleted.size,
                            SQLITE_STATIC);
    } else {
        sqlite3_bind_int64(q, 3, found->staged);
    }
    return db_run(&d->db, q, WHAT, why);
}

/* True if the state has a newer change than the body. The log may no longer
 * have that change. */
static bool
is_newer(const struct resource_diff *d, int64_t seq)
{
    return (uint64_t)seq > d->about.after;
}

static enum status
compare_staged(struct resource_diff *d, int64_t id, uint32_t hole,
               struct slice fragment, struct problem *why)
{
    sqlite3_stmt *find = d->statements[D_FIND];
    struct resource_key key;
    struct found found = {.kind = CHANGE_CREATED, .key = &key, .staged = id};
    bool row = false, is_same = false, is_left = false;
    enum status rc;

    resource_key(&key, fragment_loc(fragment));
    bind_key(find, 1, &key);
    rc = db_step(&d->db, find, &row, WHAT, why);
    if (!rc && row) {
        found.kind = CHANGE_UPDATED;
        is_same = fragment_is_resource(fragment, hole, db_column(find, 1));
        is_left = is_newer(d, sqlite3_column_int64(find, 0));
        d->n_changed += is_left;
        is_left = is_left && !is_same;
    }
    sqlite3_reset(find);
    d->told.newer += is_left;
    d->told.unchanged += is_same;
    return rc || is_same || is_left ? rc : add_difference(d, &found, why);
}

static enum status
compare_some_staged(struct resource_diff *d, struct problem *why)
{
    sqlite3_stmt *q = d->statements[D_STAGED];
    unsigned n = 0;
    bool row = true;
    enum status rc = STATUS_OK;

    sqlite3_bind_int64(q, 1, (sqlite3_int64)d->staged);
    sqlite3_bind_int(q, 2, STEP_ROWS);
    while (!rc && row) {
        rc = db_step(&d->db, q, &row, WHAT, why);
        if (rc || !row)
            break;
        n++;
        d->staged = (uint64_t)sqlite3_column_int64(q, 0);
        rc = compare_staged(d, (int64_t)d->staged,
                            (uint32_t)sqlite3_column_int64(q, 1),
                            db_column(q, 2), why);
    }
    sqlite3_reset(q);
    d->is_staged_done = n < STEP_ROWS;
    return rc;
}

/* Handles a resource that only the state has. */
static enum status
compare_missing(struct resource_diff *d, int64_t id, struct problem *why)
{
    sqlite3_stmt *q = d->statements[D_ENTRY];
    struct fragment fragment;
    struct found found = {
        .kind = CHANGE_DELETED, .key = &d->compared, .fragment = &fragment};
    bool row = false, is_left;
    enum status rc;

    sqlite3_bind_int64(q, 1, id);
    rc = db_step(&d->db, q, &row, WHAT, why);
    if (!rc && !row)
        rc = problem(why, STATUS_IO, "the state lacks a row");
    if (rc) {
        sqlite3_reset(q);
        return rc;
    }
    is_left = is_newer(d, sqlite3_column_int64(q, 0));
    buf_clear(&d->deleted);
    fragment_write_deleted(&d->deleted, db_column(q, 1), &fragment);
    sqlite3_reset(q);
    d->told.newer += is_left;
    d->n_changed += is_left;
    if (is_left)
        return STATUS_OK;
    if (d->deleted.failed)
        return problem_memory(why);
    return add_difference(d, &found, why);
}

static enum status
compare_some_of_state(struct resource_diff *d, bool *is_more,
                      struct problem *why)
{
    sqlite3_stmt *q = d->statements[D_KEYS];
    unsigned n = 0;
    bool row = true;
    enum status rc = STATUS_OK;

    /* A copy of the key, because d->compared changes. */
    sqlite3_bind_blob(q, 1, &d->compared,
                      d->has_compared ? (int)sizeof(d->compared) : 0,
                      SQLITE_TRANSIENT);
    sqlite3_bind_int(q, 2, STEP_ROWS);
    while (!rc && row) {
        struct slice key;

        rc = db_step(&d->db, q, &row, WHAT, why);
        if (rc || !row)
            break;
        n++;
        key = db_column(q, 0);
        if (key.size != sizeof(d->compared)) {
            rc = problem(why, STATUS_IO, "the state has a key of %zu bytes",
                         key.size);
            break;
        }
        memcpy(&d->compared, key.data, key.size);
        d->has_compared = true;
        if (!sqlite3_column_int(q, 2))
            rc = compare_missing(d, sqlite3_column_int64(q, 1), why);
    }
    sqlite3_reset(q);
    *is_more = n == STEP_ROWS;
    return rc;
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
    sqlite3_stmt *q = d->statements[D_COUNT];
    bool row = true;
    enum status rc = STATUS_OK;

    *counts = (struct resource_diff_counts){.unchanged = d->told.unchanged,
                                            .newer = d->told.newer};
    while (!rc && row) {
        rc = db_step(&d->db, q, &row, WHAT, why);
        if (!rc && row)
            count_one(d, counts, (enum change_kind)sqlite3_column_int(q, 0),
                      sqlite3_column_int(q, 1));
    }
    sqlite3_reset(q);
    return rc;
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
    sqlite3_stmt *q = d->statements[D_NEXT];
    bool row = true, has_room = true;
    enum status rc = STATUS_OK;

    buf_clear(&part->bytes);
    part->n = 0;
    sqlite3_bind_int64(q, 1, d->given);
    while (!rc && row && has_room && part->n < part->max) {
        enum change_kind kind;
        struct resource_key key;
        bool is_news = false;

        rc = db_step(&d->db, q, &row, WHAT, why);
        if (rc || !row)
            break;
        kind = (enum change_kind)sqlite3_column_int(q, 1);
        memcpy(&key, db_column(q, 2).data, sizeof(key)); /* written by this
                                                            program */
        rc = look_for_news(d, &key, &is_news, why);
        if (!rc && !is_news && !(kind == CHANGE_DELETED && d->is_holding))
            has_room =
                put_change(part, kind, (uint32_t)sqlite3_column_int64(q, 3),
                           db_column(q, 4));
        if (rc || !has_room)
            break;
        count_one(d, &d->told, kind, is_news);
        d->given = sqlite3_column_int64(q, 0);
    }
    sqlite3_reset(q);
    if (!rc && part->bytes.failed)
        rc = problem_memory(why);
    return rc;
}

#include "client/publish/spool.h"

#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

/* "TdSp": marks the file as ours. */
#define APPLICATION_ID 1415861104
#define VERSION        1

static const char schema[] =
    "CREATE TABLE bound (set_url TEXT NOT NULL, durable INTEGER NOT NULL);"
    "CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " body BLOB NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, last INTEGER NOT NULL);"
    "PRAGMA application_id = 1415861104; PRAGMA user_version = 1;";

enum {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ADD,
    SQL_OLDEST,
    SQL_UPTO,
    SQL_POST,
    SQL_SEAL,
    SQL_UNSEAL,
    SQL_POSTED,
    SQL_DURABLE,
    SQL_NTH,
    SQL_DROP,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ADD] = "INSERT INTO change VALUES (?1, ?2)",
    [SQL_OLDEST] = "SELECT number, length(body) FROM change ORDER BY number",
    [SQL_UPTO] = "SELECT number, body FROM change WHERE number <= ?1"
                 " ORDER BY number",
    [SQL_POST] = "SELECT key, last FROM post",
    [SQL_SEAL] = "INSERT INTO post VALUES (?1, ?2)",
    [SQL_UNSEAL] = "DELETE FROM post",
    [SQL_POSTED] = "DELETE FROM change WHERE number <= ?1",
    [SQL_DURABLE] = "UPDATE bound SET durable = ?1",
    [SQL_NTH] = "SELECT number, body FROM change WHERE number <= ?1"
                " ORDER BY number LIMIT 1 OFFSET ?2",
    [SQL_DROP] = "DELETE FROM change WHERE number = ?1",
};

struct spool {
    sqlite3 *db;
    sqlite3_stmt *statements[N_SQL];
    char *name; /* of the file, for problems */
    uint64_t max_bytes;
    uint64_t last; /* number of the last added change */
    uint64_t durable;
    uint64_t n_bytes;
    size_t n_changes;
};

/* Steps of the database */

static enum status
fail(struct spool *spool, struct problem *why)
{
    int code = sqlite3_errcode(spool->db);

    if (code == SQLITE_NOMEM)
        return problem_memory(why);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return problem(why, STATUS_IO, "the spool %.500s is in use by another",
                       spool->name);
    return problem(why, STATUS_IO, "the spool %.500s: %s", spool->name,
                   sqlite3_errmsg(spool->db));
}

static sqlite3_stmt *
statement(struct spool *spool, int which)
{
    sqlite3_stmt **s = &spool->statements[which];

    if (!*s)
        sqlite3_prepare_v3(spool->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                           s, NULL);
    return *s;
}

/* Runs a statement without rows; `number` is its parameter ?1. */
static bool
run(struct spool *spool, int which, uint64_t number)
{
    sqlite3_stmt *s = statement(spool, which);
    int code;

    if (!s)
        return false;
    if (sqlite3_bind_parameter_count(s) > 0)
        sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    code = sqlite3_step(s);
    sqlite3_reset(s);
    return code == SQLITE_DONE;
}

/* Ends what SQL_BEGIN began. */
static enum status
end(struct spool *spool, bool is_good, struct problem *why)
{
    enum status rc;

    if (is_good && run(spool, SQL_COMMIT, 0))
        return STATUS_OK;
    rc = fail(spool, why);
    if (!sqlite3_get_autocommit(spool->db))
        sqlite3_exec(spool->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Opening */

static bool
ask_number(struct spool *spool, const char *text, uint64_t *number)
{
    sqlite3_stmt *s = NULL;
    bool is_good = !sqlite3_prepare_v2(spool->db, text, -1, &s, NULL) &&
                   sqlite3_step(s) == SQLITE_ROW;

    if (is_good)
        *number = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return is_good;
}

/* A new file becomes a spool, an old one has to be one. */
static enum status
found(struct spool *spool, struct problem *why)
{
    uint64_t application = 0, version = 0, n_tables = 0;

    if (!ask_number(spool, "PRAGMA application_id", &application) ||
        !ask_number(spool, "PRAGMA user_version", &version) ||
        !ask_number(spool, "SELECT count(*) FROM sqlite_master", &n_tables))
        return fail(spool, why);
    if (n_tables == 0 && application == 0)
        return sqlite3_exec(spool->db, schema, NULL, NULL, NULL)
                   ? fail(spool, why)
                   : STATUS_OK;
    if (application != APPLICATION_ID)
        return problem(why, STATUS_IO, "%.500s is no spool", spool->name);
    if (version != VERSION)
        return problem(why, STATUS_IO,
                       "the spool %.500s was made by another version",
                       spool->name);
    return STATUS_OK;
}

/* Belongs to one set, from the beginning on. */
static enum status
bind_set(struct spool *spool, const char *set_url, struct problem *why)
{
    sqlite3_stmt *s = NULL;
    enum status rc = STATUS_OK;
    const char *its_set;

    if (sqlite3_prepare_v2(spool->db,
                           "INSERT INTO bound SELECT ?1, 0"
                           " WHERE NOT EXISTS (SELECT 1 FROM bound)",
                           -1, &s, NULL) ||
        sqlite3_bind_text(s, 1, set_url, -1, SQLITE_STATIC) ||
        sqlite3_step(s) != SQLITE_DONE)
        rc = fail(spool, why);
    sqlite3_finalize(s);
    if (rc)
        return rc;

    s = NULL;
    if (sqlite3_prepare_v2(spool->db, "SELECT set_url, durable FROM bound", -1,
                           &s, NULL) ||
        sqlite3_step(s) != SQLITE_ROW)
        rc = fail(spool, why);
    else if (!(its_set = (const char *)sqlite3_column_text(s, 0)))
        rc =
            problem(why, STATUS_IO, "the spool %.500s is damaged", spool->name);
    else if (strcmp(its_set, set_url))
        rc = problem(why, STATUS_IO,
                     "the spool %.300s is for another set: %.500s", spool->name,
                     its_set);
    else
        spool->durable = (uint64_t)sqlite3_column_int64(s, 1);
    sqlite3_finalize(s);
    return rc;
}

/* Numbers go on after the last one, even if that was dropped. */
static enum status
count(struct spool *spool, struct problem *why)
{
    uint64_t n = 0;

    if (!ask_number(spool, "SELECT count(*) FROM change", &n) ||
        !ask_number(spool, "SELECT coalesce(sum(length(body)), 0) FROM change",
                    &spool->n_bytes) ||
        !ask_number(spool, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence",
                    &spool->last))
        return fail(spool, why);
    spool->n_changes = (size_t)n;
    return STATUS_OK;
}

/* The lock is SQLite's: taken with the first transaction and kept, in this mode
 * also in WAL. FULL: added changes survive a power failure, too. */
static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE;"
                               "PRAGMA journal_mode = WAL;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA trusted_schema = OFF;"
                               "BEGIN IMMEDIATE;";

enum status
spool_open(struct spool **spool, const char *path, const char *set_url,
           uint64_t max_bytes, struct problem *why)
{
    struct spool *made = calloc(1, sizeof(*made));
    enum status rc = STATUS_OK;

    *spool = NULL;
    if (!made || !(made->name = strdup(path ? path : "of memory"))) {
        free(made);
        return problem_memory(why);
    }
    made->max_bytes = max_bytes;
    if (sqlite3_open_v2(path ? path : ":memory:", &made->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) ||
        sqlite3_exec(made->db, settings, NULL, NULL, NULL))
        rc = fail(made, why);
    if (!rc)
        rc = found(made, why);
    if (!rc)
        rc = bind_set(made, set_url, why);
    if (!rc)
        rc = count(made, why);
    if (!rc)
        rc = end(made, true, why);
    if (rc) {
        spool_close(made);
        return rc;
    }
    *spool = made;
    return STATUS_OK;
}

void
spool_close(struct spool *spool)
{
    if (!spool)
        return;
    for (size_t i = 0; i < N_SQL; i++)
        sqlite3_finalize(spool->statements[i]);
    sqlite3_close(spool->db);
    free(spool->name);
    free(spool);
}

/* Adding */

enum status
spool_add(struct spool *spool, struct slice change, uint64_t *number,
          struct problem *why)
{
    sqlite3_stmt *s = statement(spool, SQL_ADD);
    int code;

    if (!s)
        return fail(spool, why);
    if (change.size > spool->max_bytes ||
        spool->n_bytes > spool->max_bytes - change.size)
        return problem(why, STATUS_UNREACHABLE,
                       "%llu bytes of changes wait already, %llu at most",
                       (unsigned long long)spool->n_bytes,
                       (unsigned long long)spool->max_bytes);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)(spool->last + 1));
    sqlite3_bind_blob64(s, 2, change.data, change.size, SQLITE_STATIC);
    code = sqlite3_step(s);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    if (code != SQLITE_DONE)
        return fail(spool, why);
    spool->last++;
    spool->n_changes++;
    spool->n_bytes += change.size;
    *number = spool->last;
    return STATUS_OK;
}

uint64_t
spool_added(const struct spool *spool)
{
    return spool->last;
}

uint64_t
spool_durable(const struct spool *spool)
{
    return spool->durable;
}

size_t
spool_changes(const struct spool *spool)
{
    return spool->n_changes;
}

uint64_t
spool_bytes(const struct spool *spool)
{
    return spool->n_bytes;
}

/* Posts */

void
spool_post_fini(struct spool_post *post)
{
    buf_fini(&post->body);
}

/* The sealed post's key and last change; *is_there false: there is none. */
static bool
read_sealed(struct spool *spool, struct spool_post *post, bool *is_there)
{
    sqlite3_stmt *s = statement(spool, SQL_POST);
    int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    const char *key = NULL;

    *is_there = code == SQLITE_ROW;
    if (*is_there)
        key = (const char *)sqlite3_column_text(s, 0);
    if (*is_there && (!key || strlen(key) != POST_KEY_SIZE - 1))
        code = SQLITE_CORRUPT;
    if (code == SQLITE_ROW) {
        memcpy(post->key, key, POST_KEY_SIZE);
        post->last = (uint64_t)sqlite3_column_int64(s, 1);
    }
    if (s)
        sqlite3_reset(s);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

/* Chooses the last change of a new post. */
static bool
choose_last(struct spool *spool, size_t max_changes, size_t max_bytes,
            uint64_t *last)
{
    sqlite3_stmt *s = statement(spool, SQL_OLDEST);
    uint64_t bytes = 0;
    size_t n = 0;
    int code = SQLITE_ERROR;

    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        bytes += (uint64_t)sqlite3_column_int64(s, 1) + 2;
        if (n > 0 && (n >= max_changes || bytes > max_bytes))
            break;
        *last = (uint64_t)sqlite3_column_int64(s, 0);
        n++;
    }
    if (s)
        sqlite3_reset(s);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

static enum status
seal(struct spool *spool, size_t max_changes, size_t max_bytes,
     struct spool_post *post, struct problem *why)
{
    sqlite3_stmt *s = statement(spool, SQL_SEAL);
    int code;

    if (!s || !choose_last(spool, max_changes, max_bytes, &post->last))
        return fail(spool, why);
    if (!post_key(post->key))
        return problem_memory(why);
    sqlite3_bind_text(s, 1, post->key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)post->last);
    code = sqlite3_step(s);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return code == SQLITE_DONE ? STATUS_OK : fail(spool, why);
}

/* Its body is a function of what is sealed: the same bytes each time. */
static enum status
read_body(struct spool *spool, struct spool_post *post, struct problem *why)
{
    sqlite3_stmt *s = statement(spool, SQL_UPTO);
    int code = SQLITE_ERROR;

    if (s)
        sqlite3_bind_int64(s, 1, (sqlite3_int64)post->last);
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const void *change = sqlite3_column_blob(s, 1);
        size_t size = (size_t)sqlite3_column_bytes(s, 1);

        buf_add_text(&post->body, post->n++ == 0 ? "[" : ",\n");
        buf_add(&post->body, change, size);
        post->n_bytes += size;
    }
    if (s)
        sqlite3_reset(s);
    BUF_ADD(&post->body, "]\n");
    if (code != SQLITE_DONE)
        return fail(spool, why);
    return post->body.failed ? problem_memory(why) : STATUS_OK;
}

enum status
spool_seal(struct spool *spool, size_t max_changes, size_t max_bytes,
           struct spool_post *post, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_there;

    *post = (struct spool_post){.n = 0};
    buf_init(&post->body, SIZE_MAX);
    if (spool->n_changes == 0)
        return STATUS_OK;
    if (!read_sealed(spool, post, &is_there))
        return fail(spool, why);
    if (!is_there)
        rc = seal(spool, max_changes, max_bytes, post, why);
    return rc ? rc : read_body(spool, post, why);
}

enum status
spool_posted(struct spool *spool, const struct spool_post *post,
             struct problem *why)
{
    enum status rc;

    if (!run(spool, SQL_BEGIN, 0))
        return fail(spool, why);
    rc = end(spool,
             run(spool, SQL_POSTED, post->last) &&
                 run(spool, SQL_DURABLE, post->last) &&
                 run(spool, SQL_UNSEAL, 0),
             why);
    if (rc)
        return rc;
    spool->durable = post->last;
    spool->n_changes -= post->n;
    spool->n_bytes -= post->n_bytes;
    return STATUS_OK;
}

enum status
spool_change(struct spool *spool, const struct spool_post *post, uint64_t n,
             struct spool_entry *entry, struct problem *why)
{
    sqlite3_stmt *s = statement(spool, SQL_NTH);
    enum status rc = STATUS_OK;

    if (!s)
        return fail(spool, why);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)post->last);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)(n - 1));
    if (sqlite3_step(s) == SQLITE_ROW) {
        const void *body = sqlite3_column_blob(s, 1);

        entry->size = (size_t)sqlite3_column_bytes(s, 1);
        entry->number = (uint64_t)sqlite3_column_int64(s, 0);
        entry->text = slice_dup((struct slice){body, entry->size});
        rc = entry->text ? STATUS_OK : problem_memory(why);
    } else {
        rc = fail(spool, why);
    }
    sqlite3_reset(s);
    return rc;
}

enum status
spool_drop(struct spool *spool, const struct spool_entry *entry,
           struct problem *why)
{
    enum status rc;

    if (!run(spool, SQL_BEGIN, 0))
        return fail(spool, why);
    rc = end(spool,
             run(spool, SQL_DROP, entry->number) && run(spool, SQL_UNSEAL, 0),
             why);
    if (rc)
        return rc;
    spool->n_changes--;
    spool->n_bytes -= entry->size;
    return STATUS_OK;
}

enum status
spool_unseal(struct spool *spool, struct problem *why)
{
    return run(spool, SQL_UNSEAL, 0) ? STATUS_OK : fail(spool, why);
}

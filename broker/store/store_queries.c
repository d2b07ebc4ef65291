#include "broker/store/store_queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum read_statement {
    R_BATCHES,
    R_LISTS,
    R_LIST,
    R_LIST_OF,
    R_SEEK,
    R_UNFILED,
    R_TRASH,
    R_GENERATIONS,
    R_DUE,
    R_STATEMENTS
};

static const char *const read_sql[R_STATEMENTS] = {
    [R_BATCHES] =
        "SELECT first, last, before_us, last_us, before, digest, body"
        " FROM batches WHERE set_id = ?1 AND first >= coalesce((SELECT"
        " max(first) FROM batches WHERE set_id = ?1 AND first <= ?2), ?2)"
        " ORDER BY first",
    [R_LISTS] = "SELECT " LIST_COLUMNS " FROM lists"
                " WHERE set_id = ? AND number >= ? ORDER BY number LIMIT ?",
    [R_LIST] = "SELECT " LIST_COLUMNS ", header FROM lists"
               " WHERE set_id = ? AND number = ?",
    [R_LIST_OF] = "SELECT " LIST_COLUMNS ", marks FROM lists"
                  " WHERE set_id = ? AND last >= ? ORDER BY last LIMIT 1",
    [R_SEEK] = "SELECT last, list_bytes FROM batches WHERE set_id = ?"
               " AND first > ? AND first <= ? AND list_bytes <= ?"
               " ORDER BY first DESC LIMIT 1",
    [R_UNFILED] = "SELECT " LIST_COLUMNS ", header, set_id FROM lists"
                  " WHERE filed = 0 AND set_id > ? AND set_id IN"
                  " (SELECT id FROM sets) ORDER BY set_id, number LIMIT 1",
    [R_TRASH] = ("SELECT id, set_id, name, first, last, is_whole, due_us"
                 " FROM trash WHERE due_us <= ? AND (due_us, id) > (?, ?)"
                 " ORDER BY due_us, id LIMIT 1"),
    [R_GENERATIONS] = "SELECT " GENERATION_COLUMNS " FROM generations"
                      " WHERE set_id = ? AND kind = ? AND is_archived"
                      " AND number >= ?"
                      " ORDER BY number LIMIT ?",
    [R_DUE] = ("SELECT id, name, kind, number, due_us FROM generations"
               " WHERE due_us <= ? AND (due_us, id) > (?, ?)"
               " ORDER BY due_us, id LIMIT 1"),
};

static const struct db_kind readers = {
    .mode = DB_READER, .sql = read_sql, .n_sql = R_STATEMENTS};

enum status
store_prepare(struct db *db, sqlite3_stmt **statements, const char *const *sql,
              int n, struct problem *why)
{
    for (int i = 0; i < n; i++) {
        enum status rc = db_prepare(db, &statements[i], sql[i], why);

        if (rc)
            return rc;
    }
    return STATUS_OK;
}

void
store_finalize(sqlite3_stmt **statements, int n)
{
    for (int i = 0; i < n; i++)
        sqlite3_finalize(statements[i]);
}

void
store_bind_u64(sqlite3_stmt *s, int n, uint64_t number)
{
    sqlite3_bind_int64(s, n, (sqlite3_int64)number);
}

uint64_t
store_column_u64(sqlite3_stmt *s, int n)
{
    return (uint64_t)sqlite3_column_int64(s, n);
}

struct digest
store_column_digest(sqlite3_stmt *s, int n)
{
    struct slice bytes = db_column(s, n);
    struct digest d = {{0}};

    if (bytes.size == DIGEST_SIZE)
        memcpy(d.bytes, bytes.data, DIGEST_SIZE);
    return d;
}

struct list_info
store_column_list(sqlite3_stmt *s)
{
    return (struct list_info){
        .number = store_column_u64(s, 0),
        .after = store_column_u64(s, 1),
        .last = store_column_u64(s, 2),
        .from_us = sqlite3_column_int64(s, 3),
        .until_us = sqlite3_column_int64(s, 4),
        .bytes = store_column_u64(s, 5),
        .before = store_column_digest(s, 6),
        .digest = store_column_digest(s, 7),
        .is_filed = sqlite3_column_int(s, 8) != 0,
    };
}

struct generation
store_column_generation(sqlite3_stmt *s)
{
    return (struct generation){
        .kind = (enum generation_kind)sqlite3_column_int(s, 0),
        .number = store_column_u64(s, 1),
        .after = store_column_u64(s, 2),
        .seq = store_column_u64(s, 3),
        .from_us = sqlite3_column_int64(s, 4),
        .at_us = sqlite3_column_int64(s, 5),
        .completed_us = sqlite3_column_int64(s, 6),
        .n = store_column_u64(s, 7),
        .parts = store_column_u64(s, 8),
        .bytes = store_column_u64(s, 9),
        .is_archived = sqlite3_column_int(s, 10) != 0,
    };
}

static struct store_queries *
queries_of(struct engine *engine)
{
    return (struct store_queries *)(void *)engine;
}

static void
free_connection(struct db *db)
{
    if (!db)
        return;
    db_close(db);
    free(db);
}

static struct db *
take_connection(struct engine *engine, struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    struct db *db = NULL;

    pthread_mutex_lock(&s->mutex);
    if (s->n_idle > 0)
        db = s->idle[--s->n_idle];
    pthread_mutex_unlock(&s->mutex);
    if (db)
        return db;

    db = calloc(1, sizeof(*db));
    if (!db) {
        problem_memory(why);
        return NULL;
    }
    if (db_open_kind(db, &readers, s->path, why)) {
        free(db);
        return NULL;
    }
    return db;
}

/* Gives a connection back. Its statement is reset: no reader may hold up a
 * checkpoint. */
static void
give_connection(struct engine *engine, struct db *db, sqlite3_stmt *q)
{
    struct store_queries *s = queries_of(engine);

    db_reset(q);
    pthread_mutex_lock(&s->mutex);
    if (s->n_idle < STORE_QUERIES_MAX) {
        s->idle[s->n_idle++] = db;
        db = NULL;
    }
    pthread_mutex_unlock(&s->mutex);
    free_connection(db);
}

/* Adds the batch of the row at hand to `*b`, which begins with the first. */
static enum status
add_row(struct engine *engine, sqlite3_stmt *q, struct batch **b,
        struct problem *why)
{
    struct digest digest = store_column_digest(q, 5);

    if (!*b) {
        struct digest before = store_column_digest(q, 4);

        *b = batch_new(store_column_u64(q, 0) - 1, sqlite3_column_int64(q, 2),
                       &before, queries_of(engine)->forms);
        if (!*b)
            return problem_memory(why);
    }
    return batch_append(*b, db_column(q, 6), &digest, why);
}

enum status
store_queries_read(struct engine *engine, uint32_t set, uint64_t after,
                   struct batch **batch, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    struct batch *b = NULL;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    *batch = NULL;
    if (!db)
        return STATUS_IO;
    q = db->statements[R_BATCHES];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, after + 1);
    while (!(rc = db_step(db, q, &row, "read the log", why)) && row) {
        /* The first row may end before what is asked for (the rest has gone to
         * a closed list), or begin after it (the same). */
        if (!b && (store_column_u64(q, 1) <= after ||
                   store_column_u64(q, 0) > after + 1))
            break;
        if (b &&
            (store_column_u64(q, 0) != b->last + 1 ||
             b->size + (size_t)sqlite3_column_bytes(q, 6) > BATCH_BYTES_MAX))
            break;
        rc = add_row(engine, q, &b, why);
        if (rc)
            break;
    }
    give_connection(engine, db, q);
    /* Checks the batch before a reader gets it, and before a file keeps it for
     * ever. */
    if (!rc && b && !batch_is_genuine(b))
        rc = problem(why, STATUS_IO,
                     "the stored entries %llu to %llu are damaged",
                     (unsigned long long)b->first, (unsigned long long)b->last);
    if (rc) {
        batch_unref(b);
        return rc;
    }
    *batch = b;
    return STATUS_OK;
}

enum status
store_queries_lists(struct engine *engine, uint32_t set, uint64_t number,
                    struct list_info *lists, size_t *n, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    size_t max = *n;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    *n = 0;
    if (!db)
        return STATUS_IO;
    q = db->statements[R_LISTS];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, number);
    store_bind_u64(q, 3, max);
    while (!(rc = db_step(db, q, &row, "read the lists", why)) && row)
        lists[(*n)++] = store_column_list(q);
    give_connection(engine, db, q);
    return rc;
}

/* Steps to the only list that `q` finds; `extra` gets the column after it. */
static enum status
find_list(struct db *db, sqlite3_stmt *q, struct list_info *info,
          struct buf *extra, struct problem *why)
{
    bool row = false;
    enum status rc = db_step(db, q, &row, "read a list", why);

    if (!rc && !row)
        return problem(why, STATUS_NOT_FOUND, "no such list");
    if (rc)
        return rc;
    *info = store_column_list(q);
    if (!extra)
        return STATUS_OK;
    buf_add_slice(extra, db_column(q, 9));
    return extra->failed ? problem_memory(why) : STATUS_OK;
}

enum status
store_queries_list(struct engine *engine, uint32_t set, uint64_t number,
                   struct list_info *info, struct buf *header,
                   struct problem *why)
{
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_LIST];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, number);
    rc = find_list(db, q, info, header, why);
    give_connection(engine, db, q);
    return rc;
}

enum status
store_queries_list_of(struct engine *engine, uint32_t set, uint64_t seq,
                      struct list_info *info, struct buf *marks,
                      struct problem *why)
{
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_LIST_OF];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, seq);
    rc = find_list(db, q, info, marks, why);
    give_connection(engine, db, q);
    if (!rc && (info->after >= seq || !info->is_filed))
        rc = problem(why, STATUS_NOT_FOUND, "no such list");
    return rc;
}

enum status
store_queries_seek(struct engine *engine, uint32_t set,
                   const struct list_info *info, uint64_t offset,
                   struct list_place *place, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_SEEK];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, info->after);
    store_bind_u64(q, 3, info->last);
    store_bind_u64(q, 4, offset);
    rc = db_step(db, q, &row, "read the log", why);
    if (!rc && row) {
        place->after = store_column_u64(q, 0);
        place->at = store_column_u64(q, 1);
    }
    give_connection(engine, db, q);
    return rc;
}

/* Sets take turns, so that a list that cannot be filed does not hold up other
 * sets; within a set, lists are filed in order. */
enum status
store_queries_unfiled(struct engine *engine, uint32_t *set,
                      struct list_info *info, struct buf *header,
                      struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_UNFILED];
    store_bind_u64(q, 1, s->unfiled_after);
    rc = find_list(db, q, info, header, why);
    if (rc == STATUS_NOT_FOUND && s->unfiled_after > 0) {
        db_reset(q);
        store_bind_u64(q, 1, 0);
        rc = find_list(db, q, info, header, why);
        s->unfiled_after = 0;
    }
    if (!rc)
        *set = s->unfiled_after = (uint32_t)store_column_u64(q, 10);
    give_connection(engine, db, q);
    return rc;
}

enum status
store_queries_trash(struct engine *engine, int64_t now_us,
                    struct engine_trash *trash, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_TRASH];
    sqlite3_bind_int64(q, 1, now_us);
    sqlite3_bind_int64(q, 2, trash->due_us);
    store_bind_u64(q, 3, trash->id);
    rc = db_step(db, q, &row, "read the trash", why);
    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "no trash is due");
    if (!rc) {
        trash->id = (uint32_t)store_column_u64(q, 0);
        trash->set = (uint32_t)store_column_u64(q, 1);
        snprintf(trash->name, sizeof(trash->name), "%.*s",
                 SLICE_ARG(db_column(q, 2)));
        trash->first = store_column_u64(q, 3);
        trash->last = store_column_u64(q, 4);
        trash->is_whole = sqlite3_column_int(q, 5) != 0;
        trash->due_us = sqlite3_column_int64(q, 6);
    }
    give_connection(engine, db, q);
    return rc;
}

enum status
store_queries_generations(struct engine *engine, uint32_t set,
                          struct generation_page *page, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    size_t max = page->n;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    page->n = 0;
    if (!db)
        return STATUS_IO;
    q = db->statements[R_GENERATIONS];
    store_bind_u64(q, 1, set);
    sqlite3_bind_int(q, 2, (int)page->kind);
    store_bind_u64(q, 3, page->from);
    store_bind_u64(q, 4, max);
    while (!(rc = db_step(db, q, &row, "read the generations", why)) && row)
        page->all[page->n++] = store_column_generation(q);
    give_connection(engine, db, q);
    return rc;
}

enum status
store_queries_due(struct engine *engine, int64_t now_us,
                  struct due_generation *due, struct problem *why)
{
    struct db *db = take_connection(engine, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!db)
        return STATUS_IO;
    q = db->statements[R_DUE];
    sqlite3_bind_int64(q, 1, now_us);
    sqlite3_bind_int64(q, 2, due->due_us);
    store_bind_u64(q, 3, due->id);
    rc = db_step(db, q, &row, "read the generations", why);
    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "no generation is due");
    if (!rc) {
        due->id = store_column_u64(q, 0);
        snprintf(due->name, sizeof(due->name), "%.*s",
                 SLICE_ARG(db_column(q, 1)));
        due->kind = (enum generation_kind)sqlite3_column_int(q, 2);
        due->number = store_column_u64(q, 3);
        due->due_us = sqlite3_column_int64(q, 4);
    }
    give_connection(engine, db, q);
    return rc;
}

void
store_queries_init(struct store_queries *s, const char *path,
                   atomic_size_t *forms)
{
    s->path = path;
    s->forms = forms;
    pthread_mutex_init(&s->mutex, NULL);
}

void
store_queries_fini(struct store_queries *s)
{
    while (s->n_idle > 0)
        free_connection(s->idle[--s->n_idle]);
    pthread_mutex_destroy(&s->mutex);
}

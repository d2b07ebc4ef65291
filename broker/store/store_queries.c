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

struct reader_connection {
    struct db db;
    sqlite3_stmt *statements[R_STATEMENTS];
};

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

static void
connection_free(struct reader_connection *c)
{
    if (!c)
        return;
    store_finalize(c->statements, R_STATEMENTS);
    db_close(&c->db);
    free(c);
}

static struct reader_connection *
connection_take(struct store_readers *r, struct problem *why)
{
    struct reader_connection *c = NULL;

    pthread_mutex_lock(&r->mutex);
    if (r->n_idle > 0)
        c = r->idle[--r->n_idle];
    pthread_mutex_unlock(&r->mutex);
    if (c)
        return c;

    c = calloc(1, sizeof(*c));
    if (!c) {
        problem_memory(why);
        return NULL;
    }
    if (db_open(&c->db, r->path, DB_READER, why) ||
        store_prepare(&c->db, c->statements, read_sql, R_STATEMENTS, why)) {
        connection_free(c);
        return NULL;
    }
    return c;
}

/* Gives a connection back. Its statement is reset: no reader may hold up a
 * checkpoint. */
static void
connection_give(struct store_readers *r, struct reader_connection *c,
                sqlite3_stmt *q)
{
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    pthread_mutex_lock(&r->mutex);
    if (r->n_idle < STORE_READERS_MAX) {
        r->idle[r->n_idle++] = c;
        c = NULL;
    }
    pthread_mutex_unlock(&r->mutex);
    connection_free(c);
}

/* Adds the batch of the row at hand to `*b`, which begins with the first. */
static enum status
add_row(struct store_readers *r, sqlite3_stmt *q, struct batch **b,
        struct problem *why)
{
    struct digest digest = store_column_digest(q, 5);

    if (!*b) {
        struct digest before = store_column_digest(q, 4);

        *b = batch_new(store_column_u64(q, 0) - 1, sqlite3_column_int64(q, 2),
                       &before, r->forms_account);
        if (!*b)
            return problem_memory(why);
    }
    return batch_append(*b, db_column(q, 6), &digest, why);
}

enum status
store_readers_read(struct store_readers *r, uint32_t set, uint64_t after,
                   struct batch **batch, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    struct batch *b = NULL;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    *batch = NULL;
    if (!c)
        return STATUS_IO;
    q = c->statements[R_BATCHES];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, after + 1);
    while (!(rc = db_step(&c->db, q, &row, "read the log", why)) && row) {
        /* The first row may end before what is asked for (the rest has gone to
         * a closed list), or begin after it (the same). */
        if (!b && (store_column_u64(q, 1) <= after ||
                   store_column_u64(q, 0) > after + 1))
            break;
        if (b &&
            (store_column_u64(q, 0) != b->last + 1 ||
             b->size + (size_t)sqlite3_column_bytes(q, 6) > BATCH_BYTES_MAX))
            break;
        rc = add_row(r, q, &b, why);
        if (rc)
            break;
    }
    connection_give(r, c, q);
    /* Checks the batch before a reader gets it, and before a file keeps it for
     * ever. */
    if (!rc && b && !batch_is_genuine(b))
        rc = problem(why, STATUS_IO,
                     "what is kept of entries %llu to %llu is damaged",
                     (unsigned long long)b->first, (unsigned long long)b->last);
    if (rc) {
        batch_unref(b);
        return rc;
    }
    *batch = b;
    return STATUS_OK;
}

enum status
store_readers_lists(struct store_readers *r, uint32_t set, uint64_t number,
                    struct list_info *lists, size_t *n, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    size_t max = *n;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    *n = 0;
    if (!c)
        return STATUS_IO;
    q = c->statements[R_LISTS];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, number);
    store_bind_u64(q, 3, max);
    while (!(rc = db_step(&c->db, q, &row, "read the lists", why)) && row)
        lists[(*n)++] = store_column_list(q);
    connection_give(r, c, q);
    return rc;
}

/* Runs a statement that gives one list, and `extra` in the column after it;
 * with `set` it is the unfiled one of the smallest row after `a`. */
static enum status
one_list(struct store_readers *r, enum read_statement statement, uint64_t a,
         uint64_t b, struct list_info *info, struct buf *extra, uint32_t *set,
         struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!c)
        return STATUS_IO;
    q = c->statements[statement];
    store_bind_u64(q, 1, a);
    if (!set)
        store_bind_u64(q, 2, b);
    rc = db_step(&c->db, q, &row, "read a list", why);
    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "no such list");
    if (!rc) {
        *info = store_column_list(q);
        if (extra) {
            buf_add_slice(extra, db_column(q, 9));
            if (extra->failed)
                rc = problem_memory(why);
        }
        if (set) {
            *set = (uint32_t)store_column_u64(q, 10);
            r->unfiled_after = *set;
        }
    }
    connection_give(r, c, q);
    return rc;
}

enum status
store_readers_list(struct store_readers *r, uint32_t set, uint64_t number,
                   struct list_info *info, struct buf *header,
                   struct problem *why)
{
    return one_list(r, R_LIST, set, number, info, header, NULL, why);
}

enum status
store_readers_list_of(struct store_readers *r, uint32_t set, uint64_t seq,
                      struct list_info *info, struct buf *marks,
                      struct problem *why)
{
    enum status rc = one_list(r, R_LIST_OF, set, seq, info, marks, NULL, why);

    if (!rc && (info->after >= seq || !info->is_filed))
        rc = problem(why, STATUS_NOT_FOUND, "no such list");
    return rc;
}

enum status
store_readers_seek(struct store_readers *r, uint32_t set,
                   const struct list_info *info, uint64_t offset,
                   struct list_place *place, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!c)
        return STATUS_IO;
    q = c->statements[R_SEEK];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, info->after);
    store_bind_u64(q, 3, info->last);
    store_bind_u64(q, 4, offset);
    rc = db_step(&c->db, q, &row, "read the log", why);
    if (!rc && row) {
        place->after = store_column_u64(q, 0);
        place->at = store_column_u64(q, 1);
    }
    connection_give(r, c, q);
    return rc;
}

enum status
store_readers_unfiled(struct store_readers *r, uint32_t *set,
                      struct list_info *info, struct buf *header,
                      struct problem *why)
{
    enum status rc =
        one_list(r, R_UNFILED, r->unfiled_after, 0, info, header, set, why);

    /* Sets take turns, so that a list that cannot be filed does not hold up
     * other sets; within a set, lists are filed in order. */
    if (rc == STATUS_NOT_FOUND && r->unfiled_after > 0) {
        r->unfiled_after = 0;
        rc = one_list(r, R_UNFILED, 0, 0, info, header, set, why);
    }
    return rc;
}

enum status
store_readers_trash(struct store_readers *r, int64_t now_us,
                    struct engine_trash *trash, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!c)
        return STATUS_IO;
    q = c->statements[R_TRASH];
    sqlite3_bind_int64(q, 1, now_us);
    sqlite3_bind_int64(q, 2, trash->due_us);
    store_bind_u64(q, 3, trash->id);
    rc = db_step(&c->db, q, &row, "read what may go", why);
    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "nothing may go");
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
    connection_give(r, c, q);
    return rc;
}

enum status
store_readers_generations(struct store_readers *r, uint32_t set,
                          struct generation_page *page, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    size_t max = page->n;
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    page->n = 0;
    if (!c)
        return STATUS_IO;
    q = c->statements[R_GENERATIONS];
    store_bind_u64(q, 1, set);
    sqlite3_bind_int(q, 2, (int)page->kind);
    store_bind_u64(q, 3, page->from);
    store_bind_u64(q, 4, max);
    while (!(rc = db_step(&c->db, q, &row, "read the generations", why)) && row)
        page->all[page->n++] = store_column_generation(q);
    connection_give(r, c, q);
    return rc;
}

enum status
store_readers_due(struct store_readers *r, int64_t now_us,
                  struct due_generation *due, struct problem *why)
{
    struct reader_connection *c = connection_take(r, why);
    sqlite3_stmt *q;
    bool row = false;
    enum status rc;

    if (!c)
        return STATUS_IO;
    q = c->statements[R_DUE];
    sqlite3_bind_int64(q, 1, now_us);
    sqlite3_bind_int64(q, 2, due->due_us);
    store_bind_u64(q, 3, due->id);
    rc = db_step(&c->db, q, &row, "read the generations", why);
    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "nothing is due");
    if (!rc) {
        due->id = store_column_u64(q, 0);
        snprintf(due->name, sizeof(due->name), "%.*s",
                 SLICE_ARG(db_column(q, 1)));
        due->kind = (enum generation_kind)sqlite3_column_int(q, 2);
        due->number = store_column_u64(q, 3);
        due->due_us = sqlite3_column_int64(q, 4);
    }
    connection_give(r, c, q);
    return rc;
}

void
store_readers_init(struct store_readers *r, const char *path,
                   atomic_size_t *forms_account)
{
    memset(r, 0, sizeof(*r));
    r->path = path;
    r->forms_account = forms_account;
    pthread_mutex_init(&r->mutex, NULL);
}

void
store_readers_fini(struct store_readers *r)
{
    while (r->n_idle > 0)
        connection_free(r->idle[--r->n_idle]);
    pthread_mutex_destroy(&r->mutex);
}

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
    R_UNFILED_BYTES,
    R_TRASH,
    R_GENERATIONS,
    R_DUE,
    R_STATEMENTS
};

static const char *const read_sql[R_STATEMENTS] = {
    [R_BATCHES] =
        "SELECT first, last, before_us, last_us, before, digest, body, segment,"
        " at, size FROM batches WHERE set_id = ?1 AND first >= coalesce((SELECT"
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
    [R_UNFILED_BYTES] = "SELECT coalesce(sum(bytes), 0) FROM lists"
                        " WHERE filed = 0 AND set_id IN (SELECT id FROM sets)",
    [R_TRASH] = ("SELECT id, set_id, name, first, last, is_whole, due_us"
                 " FROM trash WHERE due_us <= ? AND (due_us, id) > (?, ?)"
                 " ORDER BY due_us, id LIMIT 1"),
    [R_GENERATIONS] = "SELECT " GENERATION_COLUMNS " FROM generations"
                      " WHERE set_id = ? AND kind = ? AND is_archived"
                      " AND number >= ? AND NOT " GENERATION_IS_ORDER
                      " ORDER BY number LIMIT ?",
    [R_DUE] = ("SELECT id, name, kind, number, due_us FROM generations"
               " WHERE due_us <= ? AND (due_us, id) > (?, ?)"
               " ORDER BY due_us, id LIMIT 1"),
};

static const struct db_kind readers = {
    .mode = DB_READER, .sql = read_sql, .n_sql = R_STATEMENTS};

void
store_bind(sqlite3_stmt *s, const struct store_value *values)
{
    for (int n = sqlite3_bind_parameter_count(s); n > 0; n--) {
        const struct store_value *value = &values[n - 1];

        switch (value->type) {
        case STORE_NUMBER:
            sqlite3_bind_int64(s, n, value->number);
            break;
        case STORE_TEXT:
            db_bind_text(s, n, value->bytes);
            break;
        case STORE_BYTES:
            db_bind_bytes(s, n, value->bytes);
            break;
        }
    }
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

/* A query under way, on a connection that no other reader has. */
struct reading {
    struct store_queries *queries;
    struct db *db;
    sqlite3_stmt *q;
};

/* Begins a query, on an idle connection or a new one. */
static enum status
begin_reading(struct reading *r, struct engine *engine,
              enum read_statement which, const struct store_value *values,
              struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    struct db *db = NULL;

    *r = (struct reading){.queries = s};
    pthread_mutex_lock(&s->mutex);
    if (s->n_idle > 0)
        db = s->idle[--s->n_idle];
    pthread_mutex_unlock(&s->mutex);
    if (!db) {
        db = calloc(1, sizeof(*db));
        if (!db)
            return problem_memory(why);
        if (db_open_kind(db, &readers, s->path, why)) {
            free(db);
            return STATUS_IO;
        }
    }
    r->db = db;
    r->q = db->statements[which];
    store_bind(r->q, values);
    return STATUS_OK;
}

/* Gives the connection back. Its statement is reset: no reader may hold up a
 * checkpoint. */
static void
end_reading(struct reading *r)
{
    struct store_queries *s = r->queries;

    if (!r->db)
        return;
    db_reset(r->q);
    pthread_mutex_lock(&s->mutex);
    if (s->n_idle < STORE_QUERIES_MAX) {
        s->idle[s->n_idle++] = r->db;
        r->db = NULL;
    }
    pthread_mutex_unlock(&s->mutex);
    free_connection(r->db);
}

/* The bytes of the entries of the row at hand. */
static size_t
row_bytes(sqlite3_stmt *q)
{
    return (size_t)sqlite3_column_bytes(q, 6) + (size_t)store_column_u64(q, 9);
}

/* Adds the entries of the row at hand. STATUS_AGAIN: the row is old. */
static enum status
append_entries(struct segments *segments, sqlite3_stmt *q, struct batch *b,
               const struct digest *digest, struct problem *why)
{
    const struct segment_place place = {(uint32_t)store_column_u64(q, 7),
                                        store_column_u64(q, 8)};
    size_t size = (size_t)store_column_u64(q, 9);
    enum status rc;

    if (place.number == 0)
        return batch_append(b, db_column(q, 6), digest, why);
    if (size > BATCH_BYTES_MAX)
        return problem(why, STATUS_IO, "a row of tidings.db is damaged");
    if (batch_reserve(b, size, 0))
        return problem_memory(why);
    rc = segments_read(segments, &place, size, b->bytes + b->size, why);
    return rc ? rc : batch_append_in_place(b, size, digest, why);
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
    return append_entries(queries_of(engine)->segments, q, *b, &digest, why);
}

/* Reads the rows that follow each other into one batch. STATUS_AGAIN: the
 * entries of the first one have gone from their segment since it was read. */
static enum status
read_rows(struct engine *engine, uint32_t set, uint64_t after,
          struct batch **batch, struct problem *why)
{
    const struct store_value from[] = {store_u64(set), store_u64(after + 1)};
    struct batch *b = NULL;
    struct reading r;
    bool row = false;
    enum status rc = begin_reading(&r, engine, R_BATCHES, from, why);

    while (!rc && !(rc = db_step(r.db, r.q, &row, "read the log", why)) &&
           row) {
        /* The first row may end before what is asked for (the rest has gone to
         * a closed list), or begin after it (the same). */
        if (!b && (store_column_u64(r.q, 1) <= after ||
                   store_column_u64(r.q, 0) > after + 1))
            break;
        if (b && (store_column_u64(r.q, 0) != b->last + 1 ||
                  b->size + row_bytes(r.q) > BATCH_BYTES_MAX))
            break;
        rc = add_row(engine, r.q, &b, why);
        if (rc == STATUS_AGAIN && b->n_entries > 0) {
            rc = STATUS_OK;
            break;
        }
    }
    end_reading(&r);
    *batch = b;
    return rc;
}

/* More than any reader needs: each time another commit has moved or deleted its
 * row. */
#define LOOKS_MAX 100

static enum status
read_entries(struct engine *engine, uint32_t set, uint64_t after,
             struct batch **batch, struct problem *why)
{
    struct batch *b = NULL;
    enum status rc = STATUS_AGAIN;

    *batch = NULL;
    for (int i = 0; rc == STATUS_AGAIN && i < LOOKS_MAX; i++) {
        batch_unref(b);
        rc = read_rows(engine, set, after, &b, why);
    }
    if (rc == STATUS_AGAIN)
        rc = problem(why, STATUS_IO,
                     "the segment of the entries after %llu is missing",
                     (unsigned long long)after);
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

static enum status
read_lists(struct engine *engine, uint32_t set, uint64_t number,
           struct list_info *lists, size_t *n, struct problem *why)
{
    const struct store_value page[] = {store_u64(set), store_u64(number),
                                       store_u64(*n)};
    struct reading r;
    bool row = false;
    enum status rc = begin_reading(&r, engine, R_LISTS, page, why);

    *n = 0;
    while (!rc && !(rc = db_step(r.db, r.q, &row, "read the lists", why)) &&
           row)
        lists[(*n)++] = store_column_list(r.q);
    end_reading(&r);
    return rc;
}

/* Steps to the only row. STATUS_NOT_FOUND: there is none. */
static enum status
step_to_row(struct reading *r, const char *what, const char *none,
            struct problem *why)
{
    bool row = false;
    enum status rc = db_step(r->db, r->q, &row, what, why);

    return rc || row ? rc : problem(why, STATUS_NOT_FOUND, "%s", none);
}

/* Steps to the only list; `extra` gets the column after it. */
static enum status
step_to_list(struct reading *r, struct list_info *info, struct buf *extra,
             struct problem *why)
{
    enum status rc = step_to_row(r, "read a list", "no such list", why);

    if (rc)
        return rc;
    *info = store_column_list(r->q);
    if (!extra)
        return STATUS_OK;
    buf_add_slice(extra, db_column(r->q, 9));
    return extra->failed ? problem_memory(why) : STATUS_OK;
}

static enum status
find_list(struct engine *engine, enum read_statement which,
          const struct store_value *values, struct list_info *info,
          struct buf *extra, struct problem *why)
{
    struct reading r;
    enum status rc = begin_reading(&r, engine, which, values, why);

    if (!rc)
        rc = step_to_list(&r, info, extra, why);
    end_reading(&r);
    return rc;
}

static enum status
read_list(struct engine *engine, uint32_t set, uint64_t number,
          struct list_info *info, struct buf *header, struct problem *why)
{
    const struct store_value key[] = {store_u64(set), store_u64(number)};

    return find_list(engine, R_LIST, key, info, header, why);
}

static enum status
read_list_of(struct engine *engine, uint32_t set, uint64_t seq,
             struct list_info *info, struct buf *marks, struct problem *why)
{
    const struct store_value key[] = {store_u64(set), store_u64(seq)};
    enum status rc = find_list(engine, R_LIST_OF, key, info, marks, why);

    if (!rc && (info->after >= seq || !info->is_filed))
        rc = problem(why, STATUS_NOT_FOUND, "no such list");
    return rc;
}

static enum status
seek_place(struct engine *engine, uint32_t set, const struct list_info *info,
           uint64_t offset, struct list_place *place, struct problem *why)
{
    const struct store_value key[] = {store_u64(set), store_u64(info->after),
                                      store_u64(info->last), store_u64(offset)};
    struct reading r;
    bool row = false;
    enum status rc = begin_reading(&r, engine, R_SEEK, key, why);

    if (!rc)
        rc = db_step(r.db, r.q, &row, "read the log", why);
    if (!rc && row) {
        place->after = store_column_u64(r.q, 0);
        place->at = store_column_u64(r.q, 1);
    }
    end_reading(&r);
    return rc;
}

/* Sets take turns, so that a list that cannot be filed does not hold up other
 * sets; within a set, lists are filed in order. */
static enum status
find_unfiled(struct engine *engine, uint32_t *set, struct list_info *info,
             struct buf *header, struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    const struct store_value behind[] = {store_u64(s->unfiled_after)};
    struct reading r;
    enum status rc = begin_reading(&r, engine, R_UNFILED, behind, why);

    if (!rc)
        rc = step_to_list(&r, info, header, why);
    if (rc == STATUS_NOT_FOUND && s->unfiled_after > 0) {
        db_reset(r.q);
        s->unfiled_after = 0;
        store_bind(r.q, (struct store_value[]){store_u64(0)});
        rc = step_to_list(&r, info, header, why);
    }
    if (!rc)
        *set = s->unfiled_after = (uint32_t)store_column_u64(r.q, 10);
    end_reading(&r);
    return rc;
}

static enum status
sum_unfiled(struct engine *engine, uint64_t *bytes, struct problem *why)
{
    struct reading r;
    enum status rc = begin_reading(&r, engine, R_UNFILED_BYTES, NULL, why);

    if (!rc)
        rc = step_to_row(&r, "read the lists", "no sum", why);
    if (!rc)
        *bytes = store_column_u64(r.q, 0);
    end_reading(&r);
    return rc;
}

static enum status
find_trash(struct engine *engine, int64_t now_us, struct engine_trash *trash,
           struct problem *why)
{
    const struct store_value behind[] = {
        store_i64(now_us), store_i64(trash->due_us), store_u64(trash->id)};
    struct reading r;
    enum status rc = begin_reading(&r, engine, R_TRASH, behind, why);

    if (!rc)
        rc = step_to_row(&r, "read the trash", "no trash is due", why);
    if (!rc) {
        trash->id = (uint32_t)store_column_u64(r.q, 0);
        trash->set = (uint32_t)store_column_u64(r.q, 1);
        snprintf(trash->name, sizeof(trash->name), "%.*s",
                 SLICE_ARG(db_column(r.q, 2)));
        trash->first = store_column_u64(r.q, 3);
        trash->last = store_column_u64(r.q, 4);
        trash->is_whole = sqlite3_column_int(r.q, 5) != 0;
        trash->due_us = sqlite3_column_int64(r.q, 6);
    }
    end_reading(&r);
    return rc;
}

static enum status
read_generations(struct engine *engine, uint32_t set,
                 struct generation_page *page, struct problem *why)
{
    const struct store_value from[] = {store_u64(set), store_u64(page->kind),
                                       store_u64(page->from),
                                       store_u64(page->n)};
    struct reading r;
    bool row = false;
    enum status rc = begin_reading(&r, engine, R_GENERATIONS, from, why);

    page->n = 0;
    while (!rc &&
           !(rc = db_step(r.db, r.q, &row, "read the generations", why)) && row)
        page->all[page->n++] = store_column_generation(r.q);
    end_reading(&r);
    return rc;
}

static enum status
find_due(struct engine *engine, int64_t now_us, struct due_generation *due,
         struct problem *why)
{
    const struct store_value behind[] = {
        store_i64(now_us), store_i64(due->due_us), store_u64(due->id)};
    struct reading r;
    enum status rc = begin_reading(&r, engine, R_DUE, behind, why);

    if (!rc)
        rc = step_to_row(&r, "read the generations", "no generation is due",
                         why);
    if (!rc) {
        due->id = store_column_u64(r.q, 0);
        snprintf(due->name, sizeof(due->name), "%.*s",
                 SLICE_ARG(db_column(r.q, 1)));
        due->kind = (enum generation_kind)sqlite3_column_int(r.q, 2);
        due->number = store_column_u64(r.q, 3);
        due->due_us = sqlite3_column_int64(r.q, 4);
    }
    end_reading(&r);
    return rc;
}

const struct engine_ops store_queries_ops = {
    .read = read_entries,
    .lists = read_lists,
    .list = read_list,
    .list_of = read_list_of,
    .seek = seek_place,
    .unfiled = find_unfiled,
    .unfiled_bytes = sum_unfiled,
    .trash = find_trash,
    .generations = read_generations,
    .due = find_due,
};

void
store_queries_init(struct store_queries *s, const char *path,
                   struct segments *segments, atomic_size_t *forms)
{
    s->path = path;
    s->segments = segments;
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

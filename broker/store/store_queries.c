#include "broker/store/store_queries.h"

static const struct db_kind readers = {.mode = DB_READER};

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

/* Lends a connection that no other reader has, an idle or a new one. */
static enum status
borrow(struct engine *engine, struct db **borrowed, struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    struct db *db = NULL;

    pthread_mutex_lock(&s->mutex);
    if (s->n_idle > 0)
        db = s->idle[--s->n_idle];
    pthread_mutex_unlock(&s->mutex);
    *borrowed = db ? db : memory_new(1, sizeof(*db));
    if (!db && db_open_kind(*borrowed, &readers, s->path, why)) {
        free(*borrowed);
        return STATUS_IO;
    }
    return STATUS_OK;
}

/* Takes the connection back. No statement of it is under way: no reader may
 * hold up a checkpoint. */
static void
give_back(struct engine *engine, struct db *db)
{
    struct store_queries *s = queries_of(engine);

    pthread_mutex_lock(&s->mutex);
    if (s->n_idle < STORE_QUERIES_MAX) {
        s->idle[s->n_idle++] = db;
        db = NULL;
    }
    pthread_mutex_unlock(&s->mutex);
    free_connection(db);
}

/* Begins a query in a borrowed connection: end_rows must follow. */
static struct db_rows
begin_rows(struct engine *engine, const char *what, struct problem *why,
           const char *sql, const struct db_value *values)
{
    struct db *db;
    enum status rc = borrow(engine, &db, why);

    return rc ? (struct db_rows){.rc = rc}
              : db_select(db, what, why, sql, values);
}

static enum status
end_rows(struct engine *engine, struct db_rows *rows)
{
    enum status rc = db_rows_end(rows);

    if (rows->db)
        give_back(engine, rows->db);
    return rc;
}

/* Reads one row. STATUS_NOT_FOUND: there is `none`; NULL: that is no error. */
static enum status
find_row(struct engine *engine, const char *what, const char *none,
         struct problem *why, const char *sql, const struct db_value *values,
         const struct db_target *into)
{
    struct db_rows rows = begin_rows(engine, what, why, sql, values);
    bool is_there = db_next(&rows, into);
    enum status rc = end_rows(engine, &rows);

    return rc || is_there || !none ? rc
                                   : problem(why, STATUS_NOT_FOUND, "%s", none);
}

/* Adds the entries of a row to `*result`, which begins with the first row.
 * STATUS_AGAIN: the row is old. */
static enum status
add_row(struct engine *engine, const struct stored_batch *row,
        struct batch **result, struct problem *why)
{
    struct store_queries *s = queries_of(engine);
    struct batch *b = *result;
    enum status rc;

    if (!b)
        *result = b =
            batch_new(row->first - 1, row->before_us, &row->before, s->forms);
    if (row->place.number == 0)
        return batch_append(b, row->body, &row->digest, why);
    if (row->size > BATCH_BYTES_MAX)
        return problem(why, STATUS_IO, "a row of tidings.db is damaged");
    if (batch_reserve(b, row->size, 0))
        return problem_memory(why);
    rc = segments_read(s->segments, &row->place, row->size, b->bytes + b->size,
                       why);
    return rc ? rc : batch_append_in_place(b, row->size, &row->digest, why);
}

/* Reads the rows that follow each other into one batch. STATUS_AGAIN: the
 * entries of the first one have gone from their segment since it was read. */
static enum status
read_rows(struct engine *engine, uint32_t set, uint64_t after,
          struct batch **batch, struct problem *why)
{
    struct batch *b = NULL;
    struct stored_batch row;
    struct db_rows rows =
        begin_rows(engine, "read the log", why,
                   "SELECT " BATCH_COLUMNS " FROM batches WHERE set_id = ?1"
                   " AND first >= coalesce((SELECT max(first) FROM batches"
                   " WHERE set_id = ?1 AND first <= ?2), ?2) ORDER BY first",
                   DB_VALUES(set, after + 1));

    while (DB_NEXT(&rows, BATCH_PLACES(&row))) {
        /* The first row may end before what is asked for (the rest has gone to
         * a closed list), or begin after it (the same). */
        if (b ? row.first != b->last + 1 ||
                    b->size + row.body.size + row.size > BATCH_BYTES_MAX
              : row.last <= after || row.first > after + 1)
            break;
        rows.rc = add_row(engine, &row, &b, why);
        if (rows.rc == STATUS_AGAIN && b->n_entries > 0) {
            rows.rc = STATUS_OK;
            break;
        }
    }
    *batch = b;
    return end_rows(engine, &rows);
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
                     "the segment of the entries after %" PRIu64 " is missing",
                     after);
    /* Checks the batch before a reader gets it, and before a file keeps it for
     * ever. */
    if (!rc && b && !batch_is_genuine(b))
        rc =
            problem(why, STATUS_IO,
                    "the stored entries %" PRIu64 " to %" PRIu64 " are damaged",
                    b->first, b->last);
    if (rc)
        batch_unref(b);
    else
        *batch = b;
    return rc;
}

static enum status
read_lists(struct engine *engine, uint32_t set, uint64_t number,
           struct list_info *lists, size_t *n, struct problem *why)
{
    struct db_rows rows =
        begin_rows(engine, "read the lists", why,
                   "SELECT " LIST_COLUMNS " FROM lists WHERE set_id = ?"
                   " AND number >= ? ORDER BY number LIMIT ?",
                   DB_VALUES(set, number, *n));

    *n = 0;
    while (DB_NEXT(&rows, LIST_PLACES(&lists[*n])))
        ++*n;
    return end_rows(engine, &rows);
}

/* Reads a list; `extra` gets the column after it. */
static enum status
find_list(struct engine *engine, const char *sql, const struct db_value *values,
          struct list_info *info, struct buf *extra, struct problem *why)
{
    enum status rc = find_row(
        engine, "read a list", "no such list", why, sql, values,
        extra ? DB_INTO(LIST_PLACES(info), extra) : DB_INTO(LIST_PLACES(info)));

    return !rc && extra && extra->failed ? problem_memory(why) : rc;
}

static enum status
read_list(struct engine *engine, uint32_t set, uint64_t number,
          struct list_info *info, struct buf *header, struct problem *why)
{
    return find_list(engine,
                     "SELECT " LIST_COLUMNS ", header FROM lists"
                     " WHERE set_id = ? AND number = ?",
                     DB_VALUES(set, number), info, header, why);
}

static enum status
read_list_of(struct engine *engine, uint32_t set, uint64_t seq,
             struct list_info *info, struct buf *marks, struct problem *why)
{
    enum status rc =
        find_list(engine,
                  "SELECT " LIST_COLUMNS ", marks FROM lists"
                  " WHERE set_id = ? AND last >= ? ORDER BY last LIMIT 1",
                  DB_VALUES(set, seq), info, marks, why);

    if (!rc && (info->after >= seq || !info->is_filed))
        rc = problem(why, STATUS_NOT_FOUND, "no such list");
    return rc;
}

static enum status
seek_place(struct engine *engine, uint32_t set, const struct list_info *info,
           uint64_t offset, struct list_place *place, struct problem *why)
{
    return find_row(engine, "read the log", NULL, why,
                    "SELECT last, list_bytes FROM batches WHERE set_id = ?"
                    " AND first > ? AND first <= ? AND list_bytes <= ?"
                    " ORDER BY first DESC LIMIT 1",
                    DB_VALUES(set, info->after, info->last, offset),
                    DB_INTO(&place->after, &place->at));
}

/* Sets take turns, so that a list that cannot be filed does not hold up other
 * sets; within a set, lists are filed in order. */
static enum status
find_unfiled(struct engine *engine, uint32_t *set, struct list_info *info,
             struct buf *header, struct problem *why)
{
    uint32_t *after = &queries_of(engine)->unfiled_after;
    enum status rc =
        find_row(engine, "read a list", "no such list", why,
                 "SELECT " LIST_COLUMNS ", header, set_id FROM lists"
                 " WHERE filed = 0 AND set_id > ? AND set_id IN"
                 " (SELECT id FROM sets) ORDER BY set_id, number LIMIT 1",
                 DB_VALUES(*after), DB_INTO(LIST_PLACES(info), header, set));

    if (rc == STATUS_NOT_FOUND && *after > 0) {
        *after = 0;
        return find_unfiled(engine, set, info, header, why);
    }
    if (!rc)
        *after = *set;
    return !rc && header->failed ? problem_memory(why) : rc;
}

static enum status
sum_unfiled(struct engine *engine, uint64_t *bytes, struct problem *why)
{
    return find_row(engine, "read the lists", NULL, why,
                    "SELECT coalesce(sum(bytes), 0) FROM lists"
                    " WHERE filed = 0 AND set_id IN (SELECT id FROM sets)",
                    DB_VALUES(), DB_INTO(bytes));
}

static enum status
find_trash(struct engine *engine, int64_t now_us, struct engine_trash *trash,
           struct problem *why)
{
    return find_row(engine, "read the trash", "no trash is due", why,
                    "SELECT id, set_id, name, first, last, is_whole, due_us"
                    " FROM trash WHERE due_us <= ? AND (due_us, id) > (?, ?)"
                    " ORDER BY due_us, id LIMIT 1",
                    DB_VALUES(now_us, trash->due_us, trash->id),
                    DB_INTO(&trash->id, &trash->set, &trash->name,
                            &trash->first, &trash->last, &trash->is_whole,
                            &trash->due_us));
}

static enum status
read_generations(struct engine *engine, uint32_t set,
                 struct generation_page *page, struct problem *why)
{
    struct db_rows rows =
        begin_rows(engine, "read the generations", why,
                   "SELECT " GENERATION_COLUMNS " FROM generations"
                   " WHERE set_id = ? AND kind = ? AND is_archived"
                   " AND number >= ? AND NOT " GENERATION_IS_ORDER
                   " ORDER BY number LIMIT ?",
                   DB_VALUES(set, page->kind, page->from, page->n));

    page->n = 0;
    while (DB_NEXT(&rows, GENERATION_PLACES(&page->all[page->n])))
        page->n++;
    return end_rows(engine, &rows);
}

static enum status
find_fact(struct engine *engine, uint32_t set, struct content_fact *fact,
          struct buf *bytes, struct problem *why)
{
    buf_clear(bytes);
    return find_row(engine, "read facts about content", "that is all", why,
                    "SELECT id, seq, due_us, digest, length, bytes"
                    " FROM contents WHERE set_id = ? AND id > ?"
                    " ORDER BY id LIMIT 1",
                    DB_VALUES(set, fact->id),
                    DB_INTO(&fact->id, &fact->seq, &fact->due_us, &fact->digest,
                            &fact->length, bytes));
}

static enum status
find_due(struct engine *engine, int64_t now_us, struct due_generation *due,
         struct problem *why)
{
    return find_row(
        engine, "read the generations", "no generation is due", why,
        "SELECT id, name, kind, number, due_us FROM generations"
        " WHERE due_us <= ? AND (due_us, id) > (?, ?)"
        " ORDER BY due_us, id LIMIT 1",
        DB_VALUES(now_us, due->due_us, due->id),
        DB_INTO(&due->id, &due->name, &due->kind, &due->number, &due->due_us));
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
    .fact = find_fact,
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

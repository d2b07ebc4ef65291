#include "broker/store/store_sets.h"

#include <string.h>

#include "broker/store/store_batches.h"
#include "broker/store/store_generations.h"
#include "broker/store/store_queries.h"

enum {
    S_BIRTH,
    S_SETTINGS,
    S_FILE_BYTES,
    S_NEXT_ID,
    S_REMOVE,
    S_TOMBSTONE,
    S_TRASH,
    S_TRASH_OF,
    S_FORGET_LISTS,
    S_TRASH_STEP,
    S_TRASH_GONE,
    S_RETIRE
};

static const char *const sql[STORE_SETS_STATEMENTS] = {
    [S_BIRTH] = "INSERT INTO sets(id, name, epoch, created_us, start_list)"
                " VALUES(?, ?, ?, ?, ?)",
    [S_SETTINGS] = "UPDATE sets SET settings = ?2, changed_us = ?3"
                   " WHERE id = ?1",
    [S_FILE_BYTES] = "UPDATE sets SET file_bytes = ?2 WHERE id = ?1",
    /* Greater than the id of every set of which there is a row: two sets of
     * one id would have the same generations. */
    [S_NEXT_ID] = "SELECT 1 + max((SELECT coalesce(max(id), 0) FROM sets),"
                  " (SELECT coalesce(max(set_id), 0) FROM trash),"
                  " (SELECT coalesce(max(set_id), 0) FROM generations))",
    [S_REMOVE] = "DELETE FROM sets WHERE id = ?",
    [S_TOMBSTONE] = "INSERT OR REPLACE INTO tombstones(name, list, removed_us)"
                    " VALUES(?, ?, ?)",
    [S_TRASH] = "INSERT INTO trash(set_id, name, first, last, is_whole, due_us)"
                " VALUES(?, ?, ?, ?, ?, ?)",
    [S_TRASH_OF] = "SELECT set_id, is_whole FROM trash WHERE id = ?",
    /* The last list of an existing set stays: it marks the end of the log when
     * no batch is left. */
    [S_FORGET_LISTS] = "DELETE FROM lists WHERE set_id = ?1 AND number <= ?2"
                       " AND (?3 OR number < (SELECT max(number) FROM lists"
                       " WHERE set_id = ?1))",
    [S_TRASH_STEP] = "UPDATE trash SET first = ?2 WHERE id = ?1",
    [S_RETIRE] = "UPDATE sets SET first_list = ?2, earliest = ?3,"
                 " file_bytes = ?4 WHERE id = ?1",
    [S_TRASH_GONE] = "DELETE FROM trash WHERE id = ?1 AND first > last",
};

enum status
store_sets_init(struct store_sets *s, struct db *db, struct problem *why)
{
    bool row = false;
    enum status rc;

    s->db = db;
    rc = store_prepare(db, s->statements, sql, STORE_SETS_STATEMENTS, why);
    if (!rc)
        rc = db_step(db, s->statements[S_NEXT_ID], &row, "read the sets", why);
    if (!rc && row)
        s->next_id = (uint32_t)store_column_u64(s->statements[S_NEXT_ID], 0);
    sqlite3_reset(s->statements[S_NEXT_ID]);
    return rc;
}

void
store_sets_fini(struct store_sets *s)
{
    store_finalize(s->statements, STORE_SETS_STATEMENTS);
}

/* Committing */

/* The log thread took the id from next_id (struct engine_ops). next_id moves
 * only when the commit is durable, so a refused commit uses up no id. The row's
 * primary key refuses an id that is in use, and with it the commit. */
enum status
store_sets_birth(struct store_sets *s, const struct act *act,
                 struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_BIRTH];

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_text(q, 2, act->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 3, act->birth.epoch, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 4, act->birth.created_us);
    store_bind_u64(q, 5, act->birth.start_list);
    return db_run(s->db, q, "store a set", why);
}

void
store_sets_committed(struct store_sets *s, size_t n)
{
    s->next_id += (uint32_t)n;
}

/* Lists `first` to `last` of the act's set, or all that a removed set leaves.
 */
static enum status
insert_trash(struct store_sets *s, const struct act *act, uint64_t first,
             uint64_t last, int64_t due_us, struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_TRASH];

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_text(q, 2, act->name, -1, SQLITE_STATIC);
    store_bind_u64(q, 3, first);
    store_bind_u64(q, 4, last);
    sqlite3_bind_int(q, 5, act->kind == ACT_REMOVAL);
    sqlite3_bind_int64(q, 6, due_us);
    return db_run(s->db, q, "store trash", why);
}

enum status
store_sets_removal(struct store_sets *s, const struct act *act,
                   struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_REMOVE];
    enum status rc;

    store_bind_u64(q, 1, act->set_id);
    rc = db_run(s->db, q, "remove a set", why);
    if (rc)
        return rc;
    q = s->statements[S_TOMBSTONE];
    sqlite3_bind_text(q, 1, act->name, -1, SQLITE_STATIC);
    store_bind_u64(q, 2, act->removal.next_list);
    sqlite3_bind_int64(q, 3, act->removal.removed_us);
    rc = db_run(s->db, q, "remember a removed set", why);
    if (rc)
        return rc;
    return insert_trash(s, act, act->removal.first, act->removal.last,
                        act->removal.due_us, why);
}

enum status
store_sets_retirement(struct store_sets *s, const struct act *act,
                      struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_RETIRE];
    enum status rc;

    store_bind_u64(q, 1, act->set_id);
    store_bind_u64(q, 2, act->retirement.last + 1);
    store_bind_u64(q, 3, act->retirement.earliest);
    store_bind_u64(q, 4, act->retirement.file_bytes);
    rc = db_run(s->db, q, "store which lists are retained", why);
    if (rc)
        return rc;
    return insert_trash(s, act, act->retirement.first, act->retirement.last,
                        act->retirement.due_us, why);
}

enum status
store_sets_purge(struct store_sets *s, const struct act *act,
                 struct store_batches *batches, struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_TRASH_OF];
    bool row = false, is_whole = false, is_paid = true;
    uint32_t set = 0;
    enum status rc;

    store_bind_u64(q, 1, act->purged.trash);
    rc = db_step(s->db, q, &row, "read the trash", why);
    if (!rc && row) {
        set = (uint32_t)store_column_u64(q, 0);
        is_whole = sqlite3_column_int(q, 1) != 0;
    }
    sqlite3_reset(q);
    if (rc || !row)
        return rc;

    q = s->statements[S_FORGET_LISTS];
    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, act->purged.upto);
    sqlite3_bind_int(q, 3, is_whole);
    rc = db_run(s->db, q, "forget lists", why);
    if (!rc && is_whole)
        rc = store_batches_forget(batches, set, INT64_MAX, &is_paid, why);
    q = s->statements[S_TRASH_STEP];
    store_bind_u64(q, 1, act->purged.trash);
    store_bind_u64(q, 2, act->purged.upto + 1);
    if (!rc)
        rc = db_run(s->db, q, "store trash", why);
    q = s->statements[S_TRASH_GONE];
    store_bind_u64(q, 1, act->purged.trash);
    if (!rc && is_paid)
        rc = db_run(s->db, q, "delete trash", why);
    return rc;
}

enum status
store_sets_settings(struct store_sets *s, const struct act *act,
                    struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_SETTINGS];
    struct slice text = act->settings.text;

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_text64(q, 2, text.size ? text.data : "", text.size,
                        SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(q, 3, act->settings.changed_us);
    return db_run(s->db, q, "store the settings of a set", why);
}

enum status
store_sets_file_bytes(struct store_sets *s, uint32_t set, uint64_t bytes,
                      struct problem *why)
{
    sqlite3_stmt *q = s->statements[S_FILE_BYTES];

    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, bytes);
    return db_run(s->db, q, "store the size of a set", why);
}

/* Loading */

enum { L_SETS, L_LIST, L_BATCH, L_FIRST, L_STATEMENTS };

static const char *const load_sql[L_STATEMENTS] = {
    [L_SETS] =
        "SELECT id, name, epoch, created_us, settings, changed_us, file_bytes,"
        " start_list, first_list, earliest FROM sets ORDER BY name",
    [L_LIST] =
        "SELECT " LIST_COLUMNS ", commit_after FROM lists WHERE set_id = ?"
        " ORDER BY number DESC LIMIT 1",
    [L_BATCH] = "SELECT last, last_us, list_bytes, digest, first, commit_after"
                " FROM batches WHERE set_id = ? ORDER BY first DESC LIMIT 1",
    [L_FIRST] = "SELECT coalesce(accepted_us, last_us) FROM batches"
                " WHERE set_id = ? AND first > ?"
                " ORDER BY first LIMIT 1",
};

/* A commit_after as it is kept, or `otherwise` in a row of an earlier version,
 * which did not keep it. */
static uint64_t
column_commit(sqlite3_stmt *q, int n, uint64_t otherwise)
{
    return sqlite3_column_type(q, n) == SQLITE_NULL ? otherwise
                                                    : store_column_u64(q, n);
}

/* The head that the last rows of a set lead to: the last batch, or, when that
 * has gone to a file, the last closed list. */
static enum status
load_head(struct store_sets *s, sqlite3_stmt *const q[L_STATEMENTS],
          uint32_t id, struct head *head, struct problem *why)
{
    sqlite3_stmt *list = q[L_LIST], *batch = q[L_BATCH], *first = q[L_FIRST];
    bool row = false;
    enum status rc;

    store_bind_u64(list, 1, id);
    rc = db_step(s->db, list, &row, "read the last list", why);
    if (!rc && row) {
        struct list_info info = store_column_list(list);

        head->list = info.number + 1;
        head->last = head->list_after = info.last;
        head->last_us = head->list_from_us = info.until_us;
        head->digest = head->list_before = info.digest;
        head->commit_after = column_commit(list, 9, info.last - 1);
    }
    sqlite3_reset(list);
    if (rc)
        return rc;

    store_bind_u64(batch, 1, id);
    rc = db_step(s->db, batch, &row, "read the last batch", why);
    if (!rc && row && store_column_u64(batch, 0) > head->last) {
        head->last = store_column_u64(batch, 0);
        head->last_us = sqlite3_column_int64(batch, 1);
        head->list_bytes = store_column_u64(batch, 2);
        head->digest = store_column_digest(batch, 3);
    }
    if (!rc && row && store_column_u64(batch, 0) == head->last)
        head->commit_after =
            column_commit(batch, 5, store_column_u64(batch, 4) - 1);
    sqlite3_reset(batch);
    if (rc || head->last == head->list_after)
        return rc;

    /* The age of the open list counts from the acceptance of its first entry,
     * not from the source's time. */
    store_bind_u64(first, 1, id);
    store_bind_u64(first, 2, head->list_after);
    rc = db_step(s->db, first, &row, "read the open list", why);
    if (!rc && row)
        head->list_first_us = sqlite3_column_int64(first, 0);
    sqlite3_reset(first);
    return rc;
}

static void
copy_epoch(char to[EPOCH_SIZE + 1], struct slice epoch)
{
    memset(to, 0, EPOCH_SIZE + 1);
    memcpy(to, epoch.data, epoch.size < EPOCH_SIZE ? epoch.size : EPOCH_SIZE);
}

/* Loads the names of removed sets, also of sets that were made again: an
 * existing set goes before its tombstone. */
static enum status
load_tombstones(struct store_sets *s, engine_set_fn *on_set, void *user,
                struct problem *why)
{
    sqlite3_stmt *q = NULL;
    bool row = false;
    enum status rc = db_prepare(
        s->db, &q,
        "SELECT name, list, removed_us FROM tombstones ORDER BY name", why);

    while (!rc && !(rc = db_step(s->db, q, &row, "read the sets", why)) &&
           row) {
        struct engine_set set = {
            .name = (const char *)sqlite3_column_text(q, 0),
            .head = {.is_removed = true, .list = store_column_u64(q, 1)},
            .removed_us = sqlite3_column_int64(q, 2),
        };

        rc = on_set(&set, user, why);
    }
    sqlite3_finalize(q);
    return rc;
}

enum status
store_sets_load(struct store_sets *s, struct store_generations *generations,
                engine_set_fn *on_set, void *user, struct problem *why)
{
    sqlite3_stmt *q[L_STATEMENTS] = {NULL};
    bool row = false;
    enum status rc = store_prepare(s->db, q, load_sql, L_STATEMENTS, why);

    while (!rc &&
           !(rc = db_step(s->db, q[L_SETS], &row, "read the sets", why)) &&
           row) {
        struct engine_set set = {.id =
                                     (uint32_t)store_column_u64(q[L_SETS], 0)};
        char epoch[EPOCH_SIZE + 1];

        copy_epoch(epoch, db_column(q[L_SETS], 2));
        head_start(&set.head, epoch, sqlite3_column_int64(q[L_SETS], 3));
        head_number_lists(&set.head, store_column_u64(q[L_SETS], 7));
        if (store_column_u64(q[L_SETS], 8))
            set.head.first_list = store_column_u64(q[L_SETS], 8);
        set.head.earliest = store_column_u64(q[L_SETS], 9);
        set.head.changed_us = sqlite3_column_int64(q[L_SETS], 5);
        set.head.file_bytes = store_column_u64(q[L_SETS], 6);
        rc = load_head(s, q, set.id, &set.head, why);
        if (!rc)
            rc = store_generations_load(generations, set.id,
                                        set.head.generations, why);
        set.name = (const char *)sqlite3_column_text(q[L_SETS], 1);
        set.settings = db_column(q[L_SETS], 4);
        if (!rc)
            rc = on_set(&set, user, why);
    }
    store_finalize(q, L_STATEMENTS);
    return rc ? rc : load_tombstones(s, on_set, user, why);
}

#include "broker/store/store_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/base/diag.h"
#include "broker/store/store_keys.h"
#include "broker/store/store_queries.h"

/* Forgotten at most in one commit. */
#define FORGET_BYTES 1000000
#define FORGET_ROWS  256

/*
 * A change of the format adds a step here, and never changes a released step. A
 * batch stands alone: it carries its set, seqs, times, digests, list number and
 * size, so that the last row is the head, and nothing is rewritten by a commit.
 */
static const char *const steps[] = {
    "CREATE TABLE sets(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " epoch TEXT NOT NULL, created_us INTEGER NOT NULL);"
    "CREATE TABLE batches(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " before_us INTEGER NOT NULL, last_us INTEGER NOT NULL,"
    " list INTEGER NOT NULL, list_bytes INTEGER NOT NULL,"
    " before BLOB NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL);"
    "CREATE INDEX batches_by_seq ON batches(set_id, first);"
    "CREATE TABLE lists(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"
    " number INTEGER NOT NULL, after INTEGER NOT NULL, last INTEGER NOT NULL,"
    " from_us INTEGER NOT NULL, until_us INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, before BLOB NOT NULL, digest BLOB NOT NULL,"
    " filed INTEGER NOT NULL DEFAULT 0, header BLOB NOT NULL, marks BLOB);"
    "CREATE UNIQUE INDEX lists_by_number ON lists(set_id, number);"
    "CREATE UNIQUE INDEX lists_by_seq ON lists(set_id, last);"
    "CREATE INDEX lists_unfiled ON lists(set_id, number) WHERE filed = 0;",
    store_keys_tables,

    "ALTER TABLE sets ADD COLUMN settings TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN changed_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN file_bytes INTEGER NOT NULL DEFAULT 0;",

    /* A removed set leaves a tombstone, by name, and trash, by id: ids are
     * never given twice while rows of them are left, names are. */
    "ALTER TABLE sets ADD COLUMN start_list INTEGER NOT NULL DEFAULT 1;"
    "CREATE TABLE tombstones(name TEXT PRIMARY KEY, list INTEGER NOT NULL,"
    " removed_us INTEGER NOT NULL);"
    "CREATE TABLE trash(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"
    " name TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " is_whole INTEGER NOT NULL, due_us INTEGER NOT NULL);"
    "CREATE INDEX trash_by_due ON trash(due_us);",

    /* first_list 0: start_list. */
    "ALTER TABLE sets ADD COLUMN first_list INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN earliest INTEGER NOT NULL DEFAULT 0;",

    /* due_us NULL: the generation is current or archived. The name is the
     * set's: files outlive a set. */
    "CREATE TABLE generations(id INTEGER PRIMARY KEY, set_id INTEGER NOT "
    "NULL,"
    " name TEXT NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL,"
    " after INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " from_us INTEGER NOT NULL, at_us INTEGER NOT NULL,"
    " completed_us INTEGER NOT NULL,"
    " n INTEGER NOT NULL, parts INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " is_archived INTEGER NOT NULL, due_us INTEGER);"
    "CREATE UNIQUE INDEX generations_by_number"
    " ON generations(set_id, kind, number);"
    "CREATE INDEX generations_archived ON generations(set_id, kind, number)"
    " WHERE is_archived;"
    "CREATE INDEX generations_by_due ON generations(due_us)"
    " WHERE due_us IS NOT NULL;",

    /* The acceptance time of a batch; NULL: older than this step. */
    "ALTER TABLE batches ADD COLUMN accepted_us INTEGER;",

    /* The seq before the first entry of the commit of a batch, or of a list's
     * last entry; NULL: older than this step. */
    "ALTER TABLE batches ADD COLUMN commit_after INTEGER;"
    "ALTER TABLE lists ADD COLUMN commit_after INTEGER;",

    /* Client whose request made the set (client_store); empty: none, or older
     * than this step. Earlier programs ignore the setting `private` and
     * tokens.db, so they must refuse the file. */
    "ALTER TABLE sets ADD COLUMN creator BLOB NOT NULL DEFAULT x'';"
    "ALTER TABLE tombstones ADD COLUMN creator BLOB NOT NULL DEFAULT x'';",

    /* One row in a broker of a cluster: how far its copy of the journal is
     * (journal.h). Earlier programs would leave the row behind, so they must
     * refuse the file. */
    "CREATE TABLE place(one INTEGER PRIMARY KEY CHECK (one = 1),"
    " n INTEGER NOT NULL, chain BLOB NOT NULL);",

    /* Where the entries of a batch are whose body is empty (segments.h), and
     * how many bytes of entries each segment has, in the batches with ids from
     * first_id to last_id. Earlier programs would take the body for damaged. */
    "ALTER TABLE batches ADD COLUMN segment INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE batches ADD COLUMN at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE batches ADD COLUMN size INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE segments(number INTEGER PRIMARY KEY, live INTEGER NOT NULL,"
    " first_id INTEGER NOT NULL, last_id INTEGER NOT NULL);",

    /* The report of a harvester, which an earlier program would keep for ever
     * as it is. */
    "ALTER TABLE sets ADD COLUMN harvest TEXT NOT NULL DEFAULT '';",
};

enum {
    S_NEXT_ID = STORE_ROWS,
    S_LOAD,
    S_LAST_LIST,
    S_LAST_BATCH,
    S_FIRST_BATCH,
    S_TOMBSTONES,
    S_BIRTH,
    S_SETTINGS,
    S_HARVEST,
    S_FILE_BYTES,
    S_REMOVE,
    S_TOMBSTONE,
    S_RETIRE,
    S_TRASH,
    S_TRASH_OF,
    S_TRASH_STEP,
    S_TRASH_GONE,
    S_FORGET_LISTS,
    B_BATCH,
    B_END,
    B_FILED,
    B_FORGETTABLE,
    B_FORGET,
    B_FILED_UP_TO,
    G_FORMER,
    G_REPLACE_ORDER,
    G_INSERT,
    G_UNARCHIVE,
    G_REMOVE,
    G_SWEPT,
    G_CURRENT,
    G_ORDERED,
    G_ARCHIVED,
    P_PLACE,
    P_MOVE,
    SEG_LOAD,
    SEG_USE,
    SEG_LESS,
    SEG_GONE,
    SEG_BATCHES,
    SEG_TAKE,
    STATEMENTS
};

/* The current generation of a kind of a set is the last that is not due. */
#define CURRENT_OF                                               \
    "(SELECT max(number) FROM generations WHERE set_id = ?1 AND" \
    " kind = ?2 AND due_us IS NULL AND NOT " GENERATION_IS_ORDER ")"

static const char *const sql[STATEMENTS] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",
    [STORE_ROLLBACK] = "ROLLBACK",
    [STORE_FREE_PAGES] = "PRAGMA freelist_count",
    [S_BIRTH] = "INSERT INTO sets(id, name, epoch, created_us, start_list,"
                " creator) VALUES(?, ?, ?, ?, ?, ?)",
    [S_SETTINGS] = "UPDATE sets SET settings = ?2, changed_us = ?3"
                   " WHERE id = ?1",
    [S_HARVEST] = "UPDATE sets SET harvest = ?2 WHERE id = ?1",
    [S_FILE_BYTES] = "UPDATE sets SET file_bytes = ?2 WHERE id = ?1",
    /* Greater than the id of every set of which there is a row: two sets of
     * one id would have the same generations. */
    [S_NEXT_ID] = "SELECT 1 + max((SELECT coalesce(max(id), 0) FROM sets),"
                  " (SELECT coalesce(max(set_id), 0) FROM trash),"
                  " (SELECT coalesce(max(set_id), 0) FROM generations))",
    [S_REMOVE] = "DELETE FROM sets WHERE id = ?",
    [S_TOMBSTONE] = "INSERT OR REPLACE INTO tombstones(name, list, removed_us,"
                    " creator) VALUES(?, ?, ?, ?)",
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
    [S_LOAD] =
        "SELECT id, name, epoch, created_us, settings, changed_us, file_bytes,"
        " start_list, first_list, earliest, creator, harvest"
        " FROM sets ORDER BY name",
    [S_LAST_LIST] =
        "SELECT " LIST_COLUMNS ", commit_after FROM lists WHERE set_id = ?"
        " ORDER BY number DESC LIMIT 1",
    [S_LAST_BATCH] =
        "SELECT last, last_us, list_bytes, digest, first, commit_after"
        " FROM batches WHERE set_id = ? ORDER BY first DESC LIMIT 1",
    [S_FIRST_BATCH] = "SELECT coalesce(accepted_us, last_us) FROM batches"
                      " WHERE set_id = ? AND first > ?"
                      " ORDER BY first LIMIT 1",
    [S_TOMBSTONES] =
        "SELECT name, list, removed_us, creator FROM tombstones ORDER BY name",
    [B_BATCH] = "INSERT INTO batches(set_id, first, last, before_us, last_us,"
                " list, list_bytes, before, digest, body, accepted_us,"
                " commit_after, segment, at, size)"
                " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [B_END] = "INSERT INTO lists(set_id, " LIST_COLUMNS ", header,"
              " commit_after) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
    [B_FILED] = "UPDATE lists SET filed = 1, marks = ?3"
                " WHERE set_id = ?1 AND number = ?2",
    [B_FORGETTABLE] = "SELECT id, length(body), segment, size FROM batches"
                      " WHERE set_id = ?1 AND last <= ?2"
                      " ORDER BY first LIMIT ?3",
    [B_FORGET] = "DELETE FROM batches WHERE id = ?",
    [B_FILED_UP_TO] =
        "SELECT coalesce((SELECT after FROM lists WHERE set_id = ?1 AND"
        " filed = 0 ORDER BY number LIMIT 1), (SELECT last FROM lists"
        " WHERE set_id = ?1 ORDER BY number DESC LIMIT 1), 0)",
    [G_FORMER] = "UPDATE generations SET due_us = ?3 WHERE set_id = ?1 AND"
                 " kind = ?2 AND number = " CURRENT_OF " AND NOT is_archived",
    [G_REPLACE_ORDER] =
        "UPDATE generations SET is_archived = 0, due_us = ?3"
        " WHERE set_id = ?1 AND kind = ?2 AND " GENERATION_IS_ORDER,
    /* A list has the number of its order. */
    [G_INSERT] =
        "INSERT OR REPLACE INTO generations(set_id, name, " GENERATION_COLUMNS
        ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [G_UNARCHIVE] = "UPDATE generations SET is_archived = 0, due_us = ?4"
                    " WHERE set_id = ?1 AND kind = ?2 AND is_archived"
                    " AND number < ?3",
    [G_REMOVE] = "UPDATE generations SET is_archived = 0, due_us = ?2"
                 " WHERE set_id = ?1 AND due_us IS NULL",
    [G_SWEPT] = "DELETE FROM generations WHERE id = ?",
    [G_CURRENT] = "SELECT " GENERATION_COLUMNS " FROM generations"
                  " WHERE set_id = ?1 AND kind = ?2 AND number = " CURRENT_OF,
    [G_ORDERED] = "SELECT " GENERATION_COLUMNS " FROM generations"
                  " WHERE set_id = ? AND kind = ? AND " GENERATION_IS_ORDER,
    [G_ARCHIVED] = "SELECT count(*), min(number) FROM generations"
                   " WHERE set_id = ? AND kind = ? AND is_archived"
                   " AND NOT " GENERATION_IS_ORDER,
    [P_PLACE] = "SELECT n, chain FROM place",
    [SEG_LOAD] =
        "SELECT number, live FROM segments WHERE live > 0 ORDER BY number",
    [SEG_USE] = "INSERT INTO segments(number, live, first_id, last_id)"
                " VALUES(?1, ?2, ?3, ?4) ON CONFLICT(number) DO UPDATE SET"
                " live = live + ?2, last_id = ?4",
    [SEG_LESS] = "UPDATE segments SET live = live + ?2 WHERE number = ?1",
    [SEG_GONE] = "DELETE FROM segments WHERE live = 0 AND number <> ?",
    [SEG_BATCHES] =
        "SELECT id, at, size FROM batches WHERE segment = ?1 AND id BETWEEN"
        " (SELECT first_id FROM segments WHERE number = ?1) AND"
        " (SELECT last_id FROM segments WHERE number = ?1) LIMIT ?2",
    [SEG_TAKE] = "UPDATE batches SET body = ?2, segment = 0, at = 0, size = 0"
                 " WHERE id = ?1",
    [P_MOVE] = "INSERT OR REPLACE INTO place(one, n, chain) VALUES(1, ?, ?)",
};

const struct db_kind store_kind = {
    .mode = DB_WRITER,
    .steps = steps,
    .n_steps = (int)(sizeof(steps) / sizeof(steps[0])),
    .sql = sql,
    .n_sql = STATEMENTS,
};

static enum status
load_segments(struct store_rows *s, struct problem *why)
{
    sqlite3_stmt *q = s->db->statements[SEG_LOAD];
    bool row = false;
    enum status rc = STATUS_OK;

    while (!rc && !(rc = db_step(s->db, q, &row, "read the segments", why)) &&
           row)
        rc = segments_add(s->segments, (uint32_t)store_column_u64(q, 0),
                          store_column_u64(q, 1), why);
    sqlite3_reset(q);
    return rc;
}

enum status
store_rows_init(struct store_rows *s, struct db *db, struct segments *segments,
                struct problem *why)
{
    sqlite3_stmt *q = db->statements[S_NEXT_ID];
    bool row = false;
    enum status rc = db_step(db, q, &row, "read the sets", why);

    s->db = db;
    s->segments = segments;
    if (!rc && row)
        s->next_id = (uint32_t)store_column_u64(q, 0);
    sqlite3_reset(q);
    return rc ? rc : load_segments(s, why);
}

void
store_rows_fini(struct store_rows *s)
{
    store_debts_fini(&s->debts);
    free(s->uses);
}

/* Writes by a statement. */
static enum status
run_row(struct store_rows *s, int which, const struct store_value *values,
        const char *what, struct problem *why)
{
    sqlite3_stmt *q = s->db->statements[which];

    store_bind(q, values);
    return db_run(s->db, q, what, why);
}

/* Looks for the one row of a query; the caller resets *q. */
static enum status
find_row(struct store_rows *s, int which, const struct store_value *values,
         sqlite3_stmt **q, bool *is_there, struct problem *why)
{
    *q = s->db->statements[which];
    *is_there = false;
    store_bind(*q, values);
    return db_step(s->db, *q, is_there, "read tidings.db", why);
}

/* Entries in segments */

/* Notes that the transaction adds, or takes away, rows with so many bytes of a
 * segment. */
static enum status
note_use(struct store_rows *s, uint32_t number, int64_t bytes,
         struct problem *why)
{
    struct store_use *all;

    for (size_t i = s->n_uses; i-- > 0;)
        if (s->uses[i].number == number) {
            s->uses[i].bytes += bytes;
            return STATUS_OK;
        }
    all = ONE_MORE(s->uses, &s->use_capacity, s->n_uses);
    if (!all)
        return problem_memory(why);
    s->uses = all;
    all[s->n_uses++] = (struct store_use){number, bytes};
    return STATUS_OK;
}

void
store_rows_begin(struct store_rows *s, const struct segment_place *place)
{
    s->place = *place;
    s->first_id = s->last_id = 0;
    s->n_uses = 0;
}

/* Writes what the transaction has noted, and forgets segments without entries.
 */
static enum status
write_uses(struct store_rows *s, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < s->n_uses; i++) {
        const struct store_use *use = &s->uses[i];
        const struct store_value row[] = {
            store_u64(use->number), store_i64(use->bytes),
            store_i64(s->first_id), store_i64(s->last_id)};
        bool is_written = s->last_id > 0 && use->number == s->place.number;

        rc = run_row(s, is_written ? SEG_USE : SEG_LESS, row, "count a segment",
                     why);
    }
    return rc || s->n_uses == 0 ? rc
                                : run_row(s, SEG_GONE,
                                          (struct store_value[]){store_u64(
                                              segments_current(s->segments))},
                                          "forget a segment", why);
}

/* A batch whose entries move from a segment into its row. */
struct moved {
    int64_t id;
    uint64_t at;
    size_t size;
};

/* Reads the entries of a batch into its row. */
static enum status
move_batch(struct store_rows *s, uint32_t number, const struct moved *moved,
           char *bytes, struct problem *why)
{
    const struct segment_place place = {number, moved->at};
    const struct store_value row[] = {
        store_i64(moved->id),
        store_bytes((struct slice){bytes, moved->size}),
    };
    struct problem reason = {""};
    enum status rc;

    if (segments_read(s->segments, &place, moved->size, bytes, &reason)) {
        segments_leave(s->segments, number);
        DIAG(DIAG_WARNING, "log", "a segment cannot be read, and stays",
             diag_text("error", reason.text));
        return STATUS_OK;
    }
    rc = run_row(s, SEG_TAKE, row, "move a batch", why);
    return rc ? rc : note_use(s, number, -(int64_t)moved->size, why);
}

/* Moves a slice of the batches of a segment that is nearly empty. */
static enum status
move_batches(struct store_rows *s, uint32_t number, struct problem *why)
{
    const struct store_value which[] = {store_u64(number),
                                        store_u64(FORGET_ROWS)};
    struct moved all[FORGET_ROWS];
    size_t n = 0, bytes = 0, longest = 0;
    sqlite3_stmt *q;
    char *room;
    bool row;
    enum status rc = find_row(s, SEG_BATCHES, which, &q, &row, why);

    while (!rc && row && n < FORGET_ROWS && bytes < FORGET_BYTES) {
        all[n] =
            (struct moved){sqlite3_column_int64(q, 0), store_column_u64(q, 1),
                           (size_t)store_column_u64(q, 2)};
        bytes += all[n].size;
        if (all[n].size > longest)
            longest = all[n].size;
        n++;
        rc = db_step(s->db, q, &row, "read a segment", why);
    }
    sqlite3_reset(q);
    if (rc || n == 0)
        return rc;
    room = malloc(longest);
    if (!room)
        return problem_memory(why);
    for (size_t i = 0; !rc && i < n; i++)
        rc = move_batch(s, number, &all[i], room, why);
    free(room);
    return rc;
}

/* Batches to forget */

enum status
store_debts_owe(struct map *debts, uint32_t set, uint64_t upto)
{
    struct map_node *node = map_find(debts, set);
    struct store_debt *debt;

    if (!node) {
        debt = calloc(1, sizeof(*debt));
        if (!debt)
            return STATUS_MEMORY;
        node = &debt->node;
        map_add(debts, node, set);
    }
    map_entry(node, struct store_debt, node)->upto = upto;
    return STATUS_OK;
}

struct store_debt *
store_debts_first(const struct map *debts)
{
    /* Most of the time there is none: then it does not walk the buckets. */
    struct map_node *node = debts->n > 0 ? map_next(debts, NULL) : NULL;

    return node ? map_entry(node, struct store_debt, node) : NULL;
}

void
store_debts_paid(struct map *debts, struct store_debt *debt)
{
    map_remove(debts, &debt->node);
    free(debt);
}

void
store_debts_fini(struct map *debts)
{
    struct store_debt *debt;

    while ((debt = store_debts_first(debts)))
        store_debts_paid(debts, debt);
    map_fini(debts);
}

/* Reads which batches a set owes: those up to its first list without a file,
 * even if later lists have files. */
static enum status
note_filed(struct store_rows *s, uint32_t set, struct problem *why)
{
    const struct store_value of_set[] = {store_u64(set)};
    uint64_t upto = 0;
    sqlite3_stmt *q;
    bool row;
    enum status rc = find_row(s, B_FILED_UP_TO, of_set, &q, &row, why);

    if (!rc && row)
        upto = store_column_u64(q, 0);
    sqlite3_reset(q);
    if (!rc && upto > 0 && store_debts_owe(&s->debts, set, upto))
        rc = problem_memory(why);
    return rc;
}

/* Deletes a slice of the batches of a set up to entry `upto`; *is_paid: nothing
 * was left. */
static enum status
forget_batches(struct store_rows *s, uint32_t set, uint64_t upto, bool *is_paid,
               struct problem *why)
{
    const struct store_value which[] = {store_u64(set), store_u64(upto),
                                        store_u64(FORGET_ROWS)};
    int64_t ids[FORGET_ROWS];
    size_t n = 0, bytes = 0;
    sqlite3_stmt *q;
    bool row;
    enum status rc = find_row(s, B_FORGETTABLE, which, &q, &row, why);

    while (!rc && row && (n == 0 || bytes < FORGET_BYTES)) {
        ids[n++] = sqlite3_column_int64(q, 0);
        bytes += (size_t)sqlite3_column_int64(q, 1);
        if (store_column_u64(q, 2) > 0)
            rc = note_use(s, (uint32_t)store_column_u64(q, 2),
                          -sqlite3_column_int64(q, 3), why);
        if (!rc)
            rc = db_step(s->db, q, &row, "find old batches", why);
    }
    sqlite3_reset(q);
    *is_paid = n == 0;
    for (size_t i = 0; !rc && i < n; i++)
        rc = run_row(s, B_FORGET, (struct store_value[]){store_i64(ids[i])},
                     "forget a batch", why);
    return rc;
}

enum status
store_rows_pay(struct store_rows *s, bool *is_paid, struct problem *why)
{
    const struct store_debt *debt = store_debts_first(&s->debts);
    uint32_t sparse = debt ? 0 : segments_sparse(s->segments);
    enum status rc = STATUS_OK;

    *is_paid = false;
    if (debt)
        rc = forget_batches(s, (uint32_t)debt->node.hash, debt->upto, is_paid,
                            why);
    else if (sparse > 0)
        rc = move_batches(s, sparse, why);
    return rc ? rc : write_uses(s, why);
}

bool
store_rows_owe(const struct store_rows *s)
{
    return s->debts.n > 0 || segments_sparse(s->segments) > 0;
}

/* Acts on sets */

/* The log thread took the id from next_id (struct engine_ops). next_id moves
 * only when the commit is durable, so a refused commit uses up no id. The row's
 * primary key refuses an id that is in use, and with it the commit. */
static enum status
apply_birth(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_text(slice_of(act->name)),
        store_text(slice_of(act->birth.epoch)),
        store_i64(act->birth.created_us),
        store_u64(act->birth.start_list),
        store_bytes(act->birth.creator),
    };

    return run_row(s, S_BIRTH, row, "store a set", why);
}

static enum status
apply_settings(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_text(act->settings.text),
        store_i64(act->settings.changed_us),
    };

    return run_row(s, S_SETTINGS, row, "store the settings of a set", why);
}

static enum status
apply_harvest(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_text(act->harvest.text),
    };

    return run_row(s, S_HARVEST, row, "store the harvest of a set", why);
}

/* Lists `first` to `last` of the act's set, or all that a removed set leaves.
 */
static enum status
insert_trash(struct store_rows *s, const struct act *act, uint64_t first,
             uint64_t last, int64_t due_us, struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_text(slice_of(act->name)),
        store_u64(first),
        store_u64(last),
        store_u64(act->kind == ACT_REMOVAL),
        store_i64(due_us),
    };

    return run_row(s, S_TRASH, row, "store trash", why);
}

static enum status
apply_removal(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value generations[] = {
        store_u64(act->set_id),
        store_i64(act->removal.due_us),
    };
    const struct store_value tombstone[] = {
        store_text(slice_of(act->name)),
        store_u64(act->removal.next_list),
        store_i64(act->removal.removed_us),
        store_bytes(act->removal.creator),
    };
    enum status rc = run_row(s, S_REMOVE, generations, "remove a set", why);

    if (!rc)
        rc = run_row(s, S_TOMBSTONE, tombstone, "remember a removed set", why);
    if (!rc)
        rc = insert_trash(s, act, act->removal.first, act->removal.last,
                          act->removal.due_us, why);
    return rc ? rc
              : run_row(s, G_REMOVE, generations, "remove generations", why);
}

static enum status
apply_retirement(struct store_rows *s, const struct act *act,
                 struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_u64(act->retirement.last + 1),
        store_u64(act->retirement.earliest),
        store_u64(act->retirement.file_bytes),
    };
    enum status rc =
        run_row(s, S_RETIRE, row, "store which lists are retained", why);

    return rc ? rc
              : insert_trash(s, act, act->retirement.first,
                             act->retirement.last, act->retirement.due_us, why);
}

/* Forgets the rows of the lists whose files are gone, and a slice of the
 * batches of a removed set. */
static enum status
apply_purged(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value step[] = {store_u64(act->purged.trash),
                                       store_u64(act->purged.upto + 1)};
    bool row, is_whole = false, is_paid = true;
    uint32_t set = 0;
    sqlite3_stmt *q;
    enum status rc = find_row(s, S_TRASH_OF, step, &q, &row, why);

    if (!rc && row) {
        set = (uint32_t)store_column_u64(q, 0);
        is_whole = sqlite3_column_int(q, 1) != 0;
    }
    sqlite3_reset(q);
    if (rc || !row)
        return rc;

    rc = run_row(s, S_FORGET_LISTS,
                 (struct store_value[]){store_u64(set),
                                        store_u64(act->purged.upto),
                                        store_u64(is_whole)},
                 "forget lists", why);
    if (!rc && is_whole)
        rc = forget_batches(s, set, INT64_MAX, &is_paid, why);
    if (!rc)
        rc = run_row(s, S_TRASH_STEP, step, "store trash", why);
    if (!rc && is_paid)
        rc = run_row(s, S_TRASH_GONE, step, "delete trash", why);
    return rc;
}

/* Acts on batches and lists */

static enum status
apply_batch(struct store_rows *s, const struct act *act, int64_t at_us,
            struct problem *why)
{
    const struct batch *b = act->entries.batch;
    bool is_in_row = s->place.number == 0 || !segments_take(b);
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_u64(b->first),
        store_u64(b->last),
        store_i64(b->before_us),
        store_i64(b->last_us),
        store_u64(b->list),
        store_u64(b->list_bytes),
        store_digest(&b->before),
        store_digest(&b->digest),
        store_bytes((struct slice){b->bytes, is_in_row ? b->size : 0}),
        store_i64(at_us),
        store_u64(act->entries.commit_after),
        store_u64(is_in_row ? 0 : s->place.number),
        store_u64(is_in_row ? 0 : s->place.offset),
        store_u64(is_in_row ? 0 : b->size),
    };
    enum status rc = run_row(s, B_BATCH, row, "store a batch", why);

    if (rc || is_in_row)
        return rc;
    s->place.offset += b->size;
    s->last_id = sqlite3_last_insert_rowid(s->db->handle);
    if (s->first_id == 0)
        s->first_id = s->last_id;
    return note_use(s, s->place.number, (int64_t)b->size, why);
}

static enum status
apply_list_end(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct list_info *info = &act->list_end.info;
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_u64(info->number),
        store_u64(info->after),
        store_u64(info->last),
        store_i64(info->from_us),
        store_i64(info->until_us),
        store_u64(info->bytes),
        store_digest(&info->before),
        store_digest(&info->digest),
        store_bytes(act->list_end.header),
        store_u64(act->list_end.commit_after),
    };

    return run_row(s, B_END, row, "store the end of a list", why);
}

static enum status
apply_filed(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value list[] = {
        store_u64(act->set_id),
        store_u64(act->filed.list),
        store_bytes(act->filed.marks),
    };
    const struct store_value set[] = {
        store_u64(act->set_id),
        store_u64(act->filed.file_bytes),
    };
    enum status rc =
        run_row(s, B_FILED, list, "store that a list is filed", why);

    return rc ? rc
              : run_row(s, S_FILE_BYTES, set, "store the size of a set", why);
}

/* Acts on generations */

static enum status
apply_generation(struct store_rows *s, const struct act *act,
                 struct problem *why)
{
    const struct generation *new = &act->generation.build;
    const struct store_value former[] = {
        store_u64(act->set_id),
        store_u64(new->kind),
        store_i64(act->generation.due_us),
    };
    const struct store_value row[] = {
        store_u64(act->set_id),       store_text(slice_of(act->name)),
        store_u64(new->kind),         store_u64(new->number),
        store_u64(new->after),        store_u64(new->seq),
        store_i64(new->from_us),      store_i64(new->at_us),
        store_i64(new->completed_us), store_u64(new->n),
        store_u64(new->parts),        store_u64(new->bytes),
        store_u64(new->is_archived),
    };
    enum status rc =
        run_row(s, generation_is_order(new) ? G_REPLACE_ORDER : G_FORMER,
                former, "store the former generation", why);

    return rc ? rc : run_row(s, G_INSERT, row, "store a generation", why);
}

static enum status
apply_unarchived(struct store_rows *s, const struct act *act,
                 struct problem *why)
{
    const struct store_value row[] = {
        store_u64(act->set_id),
        store_u64(act->unarchived.kind),
        store_u64(act->unarchived.first_archived),
        store_i64(act->unarchived.due_us),
    };

    return run_row(s, G_UNARCHIVE, row, "store which generations are archived",
                   why);
}

static enum status
apply_swept(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct store_value id[] = {store_u64(act->swept.id)};

    return run_row(s, G_SWEPT, id, "forget a generation", why);
}

enum status
store_rows_apply(struct store_rows *s, const struct act *act, int64_t at_us,
                 struct problem *why)
{
    switch (act->kind) {
    case ACT_BIRTH:
        return apply_birth(s, act, why);
    case ACT_BATCH:
        return apply_batch(s, act, at_us, why);
    case ACT_LIST_END:
        return apply_list_end(s, act, why);
    case ACT_SETTINGS:
        return apply_settings(s, act, why);
    case ACT_RETIREMENT:
        return apply_retirement(s, act, why);
    case ACT_REMOVAL:
        return apply_removal(s, act, why);
    case ACT_GENERATION:
        return apply_generation(s, act, why);
    case ACT_UNARCHIVED:
        return apply_unarchived(s, act, why);
    case ACT_HARVEST:
        return apply_harvest(s, act, why);
    case ACT_FILED:
        return apply_filed(s, act, why);
    case ACT_PURGED:
        return apply_purged(s, act, why);
    case ACT_SWEPT:
        return apply_swept(s, act, why);
    case ACT_KEY: /* store_keys.h */
    case ACT_KINDS:
        break;
    }
    return problem(why, STATUS_INVALID, "an act of unknown kind");
}

void
store_rows_committed(struct store_rows *s, const struct commit *commit,
                     bool is_paid)
{
    struct problem why = {""};

    for (size_t i = 0; i < s->n_uses; i++)
        segments_count(s->segments, s->uses[i].number, s->uses[i].bytes);
    if (is_paid)
        store_debts_paid(&s->debts, store_debts_first(&s->debts));
    for (size_t i = 0; i < commit->n; i++) {
        const struct act *act = &commit->acts[i];

        s->next_id += act->kind == ACT_BIRTH;
        if (act->kind == ACT_FILED && note_filed(s, act->set_id, &why))
            DIAG(DIAG_WARNING, "log",
                 "batches that are in a file stay in tidings.db until the next "
                 "start",
                 diag_text("error", why.text));
    }
}

/* Loading */

/* A commit_after as it is kept, or `otherwise` in a row of an earlier version,
 * which did not keep it. */
static uint64_t
column_commit(sqlite3_stmt *q, int n, uint64_t otherwise)
{
    return sqlite3_column_type(q, n) == SQLITE_NULL ? otherwise
                                                    : store_column_u64(q, n);
}

/* Loads the head that the last rows of a set lead to: the last batch, or, when
 * that has gone to a file, the last closed list. */
static enum status
load_head(struct store_rows *s, uint32_t id, struct head *head,
          struct problem *why)
{
    const struct store_value of_set[] = {store_u64(id)};
    sqlite3_stmt *q;
    bool row;
    enum status rc = find_row(s, S_LAST_LIST, of_set, &q, &row, why);

    if (!rc && row) {
        struct list_info info = store_column_list(q);

        head->list = info.number + 1;
        head->last = head->list_after = info.last;
        head->last_us = head->list_from_us = info.until_us;
        head->digest = head->list_before = info.digest;
        head->commit_after = column_commit(q, 9, info.last - 1);
    }
    sqlite3_reset(q);
    if (rc)
        return rc;

    rc = find_row(s, S_LAST_BATCH, of_set, &q, &row, why);
    if (!rc && row && store_column_u64(q, 0) > head->last) {
        head->last = store_column_u64(q, 0);
        head->last_us = sqlite3_column_int64(q, 1);
        head->list_bytes = store_column_u64(q, 2);
        head->digest = store_column_digest(q, 3);
    }
    if (!rc && row && store_column_u64(q, 0) == head->last)
        head->commit_after = column_commit(q, 5, store_column_u64(q, 4) - 1);
    sqlite3_reset(q);
    if (rc || head->last == head->list_after)
        return rc;

    /* The age of the open list counts from the acceptance of its first entry,
     * not from the source's time. */
    rc = find_row(
        s, S_FIRST_BATCH,
        (struct store_value[]){store_u64(id), store_u64(head->list_after)}, &q,
        &row, why);
    if (!rc && row)
        head->list_first_us = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return rc;
}

/* Loads the generations of one kind into `to`, which head_number_lists has
 * begun. */
static enum status
load_generations(struct store_rows *s, uint32_t set, enum generation_kind kind,
                 struct generations *to, struct problem *why)
{
    const struct store_value of_kind[] = {store_u64(set), store_u64(kind)};
    sqlite3_stmt *q;
    bool row;
    enum status rc = find_row(s, G_CURRENT, of_kind, &q, &row, why);

    if (!rc && row) {
        to->current = store_column_generation(q);
        to->last = to->current.number;
    }
    sqlite3_reset(q);
    if (!rc)
        rc = find_row(s, G_ORDERED, of_kind, &q, &row, why);
    if (rc)
        return rc;
    if (row) {
        to->ordered = store_column_generation(q);
        to->last = to->ordered.number;
    }
    sqlite3_reset(q);
    rc = find_row(s, G_ARCHIVED, of_kind, &q, &row, why);
    if (!rc && row) {
        to->n_archived = store_column_u64(q, 0);
        to->first_archived = store_column_u64(q, 1);
    }
    sqlite3_reset(q);
    return rc;
}

/* Loads the names of removed sets, also of sets that were made again: an
 * existing set goes before its tombstone. */
static enum status
load_tombstones(struct store_rows *s, engine_set_fn *on_set, void *user,
                struct problem *why)
{
    sqlite3_stmt *q = s->db->statements[S_TOMBSTONES];
    bool row = false;
    enum status rc = STATUS_OK;

    while (!rc && !(rc = db_step(s->db, q, &row, "read the sets", why)) &&
           row) {
        struct engine_set set = {
            .name = (const char *)sqlite3_column_text(q, 0),
            .head = {.is_removed = true, .list = store_column_u64(q, 1)},
            .removed_us = sqlite3_column_int64(q, 2),
            .creator = db_column(q, 3),
        };

        rc = on_set(&set, user, why);
    }
    sqlite3_reset(q);
    return rc;
}

/* Loads the set of the row at hand. */
static enum status
load_set(struct store_rows *s, sqlite3_stmt *q, struct engine_set *set,
         struct problem *why)
{
    char epoch[EPOCH_SIZE + 1] = "";
    enum status rc;

    db_text(q, 2, epoch, sizeof(epoch));
    set->id = (uint32_t)store_column_u64(q, 0);
    set->name = (const char *)sqlite3_column_text(q, 1);
    set->settings = db_column(q, 4);
    set->creator = db_column(q, 10);
    set->harvest = db_column(q, 11);
    head_start(&set->head, epoch, sqlite3_column_int64(q, 3));
    head_number_lists(&set->head, store_column_u64(q, 7));
    if (store_column_u64(q, 8))
        set->head.first_list = store_column_u64(q, 8);
    set->head.earliest = store_column_u64(q, 9);
    set->head.changed_us = sqlite3_column_int64(q, 5);
    set->head.file_bytes = store_column_u64(q, 6);
    rc = load_head(s, set->id, &set->head, why);
    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = load_generations(s, set->id, (enum generation_kind)kind,
                              &set->head.generations[kind], why);
    return rc ? rc : note_filed(s, set->id, why);
}

enum status
store_rows_load(struct store_rows *s, engine_set_fn *on_set, void *user,
                struct problem *why)
{
    sqlite3_stmt *q = s->db->statements[S_LOAD];
    bool row = false;
    enum status rc = STATUS_OK;

    while (!rc && !(rc = db_step(s->db, q, &row, "read the sets", why)) &&
           row) {
        struct engine_set set = {.id = 0};

        rc = load_set(s, q, &set, why);
        if (!rc)
            rc = on_set(&set, user, why);
    }
    sqlite3_reset(q);
    return rc ? rc : load_tombstones(s, on_set, user, why);
}

/* The place in the journal */

enum status
store_rows_place(struct store_rows *s, struct journal_place *place,
                 struct problem *why)
{
    sqlite3_stmt *q = s->db->statements[P_PLACE];
    struct slice chain;
    bool row = false;
    enum status rc = db_step(s->db, q, &row, "read the place", why);

    *place = (struct journal_place){.n = 0};
    if (!rc && row) {
        place->n = store_column_u64(q, 0);
        chain = db_column(q, 1);
        if (chain.size == DIGEST_SIZE)
            memcpy(place->chain.bytes, chain.data, DIGEST_SIZE);
        else
            rc = problem(why, STATUS_IO, "the place has no digest");
    }
    sqlite3_reset(q);
    return rc;
}

enum status
store_rows_move(struct store_rows *s, const struct journal_place *place,
                struct problem *why)
{
    const struct store_value values[] = {
        store_u64(place->n),
        store_bytes(
            (struct slice){(const char *)place->chain.bytes, DIGEST_SIZE})};

    return run_row(s, P_MOVE, values, "move the place", why);
}

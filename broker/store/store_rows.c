#include "broker/store/store_rows.h"

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

    /* One row if the broker was closed: then it never opens by itself. Earlier
     * programs would open it without tokens.db, so they must refuse the
     * file. */
    "CREATE TABLE guard(one INTEGER PRIMARY KEY CHECK (one = 1));",

    /* Facts about the content of entries, with the bytes that are in no file
     * yet. No id is given twice: content.db knows the last one that it has. */
    "CREATE TABLE contents(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " set_id INTEGER NOT NULL, seq INTEGER NOT NULL, due_us INTEGER NOT NULL,"
    " digest BLOB NOT NULL, length INTEGER NOT NULL, bytes BLOB);"
    "CREATE INDEX contents_by_set ON contents(set_id);",

    /* Of a log that has changed its epoch: its first epoch with entries, the
     * one before, and the last entry and builds of that; '': it has not.
     * Earlier programs would take files by the name of the present one, so they
     * must refuse the file. */
    "ALTER TABLE sets ADD COLUMN origin TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN former TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN began INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN former_list INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN former_dump INTEGER NOT NULL DEFAULT 0;",
};

const struct db_kind store_kind = {
    .mode = DB_WRITER,
    DB_STEPS(steps),
};

enum status
store_rows_init(struct store_rows *s, struct db *db, struct segments *segments,
                struct problem *why)
{
    struct db_rows rows;
    uint32_t number;
    uint64_t live;
    enum status rc;

    s->db = db;
    s->segments = segments;
    /* Greater than the id of every set of which there is a row: two sets of
     * one id would have the same generations. */
    rc = db_find(db, "read the sets", why, NULL,
                 "SELECT 1 + max((SELECT coalesce(max(id), 0) FROM sets),"
                 " (SELECT coalesce(max(set_id), 0) FROM trash),"
                 " (SELECT coalesce(max(set_id), 0) FROM generations))",
                 DB_VALUES(), DB_INTO(&s->next_id));
    if (rc)
        return rc;
    rows = DB_SELECT(db, "read the segments", why,
                     "SELECT number, live FROM segments WHERE live > 0"
                     " ORDER BY number");
    while (DB_NEXT(&rows, &number, &live))
        rows.rc = segments_add(segments, number, live, why);
    return db_rows_end(&rows);
}

void
store_rows_fini(struct store_rows *s)
{
    store_debts_fini(&s->debts);
    free(s->uses);
}

/* Entries in segments */

/* Notes that the transaction adds, or takes away, rows with so many bytes of a
 * segment: a few segments. */
static void
note_use(struct store_rows *s, uint32_t number, int64_t bytes)
{
    for (size_t i = s->n_uses; i-- > 0;)
        if (s->uses[i].number == number) {
            s->uses[i].bytes += bytes;
            return;
        }
    (void)ONE_MORE(s->uses, &s->use_capacity, s->n_uses);
    s->uses[s->n_uses++] = (struct store_use){number, bytes};
}

void
store_rows_begin(struct store_rows *s, const struct segment_place *place)
{
    s->place = *place;
    s->first_id = s->last_id = 0;
    s->n_uses = 0;
}

/* A batch whose entries move from a segment into its row. */
struct moved {
    int64_t id;
    uint64_t at;
    size_t size;
};

/* Moves a slice of the batches of a segment that is nearly empty. */
static enum status
move_batches(struct store_rows *s, uint32_t number, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        s->db, "read a segment", why,
        "SELECT id, at, size FROM batches WHERE segment = ?1 AND id BETWEEN"
        " (SELECT first_id FROM segments WHERE number = ?1) AND"
        " (SELECT last_id FROM segments WHERE number = ?1) LIMIT ?2",
        number, FORGET_ROWS);
    struct moved all[FORGET_ROWS];
    size_t n = 0, bytes = 0, longest = 0;
    char *room;
    enum status rc;

    while (n < FORGET_ROWS && bytes < FORGET_BYTES &&
           DB_NEXT(&rows, &all[n].id, &all[n].at, &all[n].size)) {
        bytes += all[n].size;
        if (all[n].size > longest)
            longest = all[n].size;
        n++;
    }
    rc = db_rows_end(&rows);
    if (rc || n == 0)
        return rc;
    room = memory_room(longest);
    if (!room)
        return problem_memory(why);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct segment_place place = {number, all[i].at};
        struct problem reason = {""};

        if (segments_read(s->segments, &place, all[i].size, room, &reason)) {
            segments_leave(s->segments, number);
            DIAG(DIAG_WARNING, "log", "a segment cannot be read, and stays",
                 diag_text("error", reason.text));
            continue;
        }
        rc = DB_DO(s->db, "move a batch", why,
                   "UPDATE batches SET body = ?, segment = 0, at = 0, size = 0"
                   " WHERE id = ?",
                   db_bytes(room, all[i].size), all[i].id);
        if (!rc)
            note_use(s, number, -(int64_t)all[i].size);
    }
    free(room);
    return rc;
}

/* Batches to forget */

void
store_debts_owe(struct map *debts, uint32_t set, uint64_t upto)
{
    struct map_node *node = map_find(debts, set);
    struct store_debt *debt;

    if (!node) {
        debt = memory_new(1, sizeof(*debt));
        node = &debt->node;
        map_add(debts, node, set);
    }
    map_entry(node, struct store_debt, node)->upto = upto;
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
    uint64_t upto = 0;
    enum status rc =
        db_find(s->db, NULL, why, NULL,
                "SELECT coalesce((SELECT after FROM lists WHERE set_id = ?1 AND"
                " filed = 0 ORDER BY number LIMIT 1), (SELECT last FROM lists"
                " WHERE set_id = ?1 ORDER BY number DESC LIMIT 1), 0)",
                DB_VALUES(set), DB_INTO(&upto));

    if (!rc && upto > 0)
        store_debts_owe(&s->debts, set, upto);
    return rc;
}

/* Deletes a slice of the batches of a set up to entry `upto`; *is_paid: nothing
 * was left. */
static enum status
forget_batches(struct store_rows *s, uint32_t set, uint64_t upto, bool *is_paid,
               struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(s->db, "find old batches", why,
                  "SELECT first, length(body), segment, size FROM batches"
                  " WHERE set_id = ? AND last <= ? ORDER BY first LIMIT ?",
                  set, upto, FORGET_ROWS);
    uint64_t first = 0, body, bytes = 0;
    uint32_t segment;
    int64_t size;
    enum status rc;

    while (bytes < FORGET_BYTES &&
           DB_NEXT(&rows, &first, &body, &segment, &size)) {
        bytes += body;
        if (segment > 0)
            note_use(s, segment, -size);
    }
    rc = db_rows_end(&rows);
    *is_paid = first == 0;
    return rc || first == 0
               ? rc
               : DB_DO(s->db, "forget batches", why,
                       "DELETE FROM batches WHERE set_id = ? AND first <= ?",
                       set, first);
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
    /* The segments that the transaction has used; those without entries go. */
    for (size_t i = 0; !rc && i < s->n_uses; i++) {
        const struct store_use *use = &s->uses[i];

        if (s->last_id > 0 && use->number == s->place.number)
            rc = DB_DO(s->db, "count a segment", why,
                       "INSERT INTO segments(number, live, first_id, last_id)"
                       " VALUES(?1, ?2, ?3, ?4) ON CONFLICT(number) DO UPDATE"
                       " SET live = live + ?2, last_id = ?4",
                       use->number, use->bytes, s->first_id, s->last_id);
        else
            rc = DB_DO(s->db, "count a segment", why,
                       "UPDATE segments SET live = live + ? WHERE number = ?",
                       use->bytes, use->number);
    }
    return rc || s->n_uses == 0
               ? rc
               : DB_DO(s->db, "forget a segment", why,
                       "DELETE FROM segments WHERE live = 0 AND number <> ?",
                       segments_current(s->segments));
}

bool
store_rows_owe(const struct store_rows *s)
{
    return s->debts.n > 0 || segments_sparse(s->segments) > 0;
}

/* Acts on sets */

/* Lists `first` to `last` of the act's set, or all that a removed set leaves.
 */
static enum status
insert_trash(struct store_rows *s, const struct act *act, uint64_t first,
             uint64_t last, int64_t due_us, struct problem *why)
{
    return DB_DO(s->db, "store trash", why,
                 "INSERT INTO trash(set_id, name, first, last, is_whole,"
                 " due_us) VALUES(?, ?, ?, ?, ?, ?)",
                 act->set_id, act->name, first, last, act->kind == ACT_REMOVAL,
                 due_us);
}

static enum status
apply_removal(struct store_rows *s, const struct act *act, struct problem *why)
{
    enum status rc = DB_DO(s->db, "remove a set", why,
                           "DELETE FROM sets WHERE id = ?", act->set_id);

    if (!rc)
        rc = DB_DO(s->db, "remember a removed set", why,
                   "INSERT OR REPLACE INTO tombstones(name, list, removed_us,"
                   " creator) VALUES(?, ?, ?, ?)",
                   act->name, act->removal.next_list, act->removal.removed_us,
                   db_blob(act->removal.creator));
    if (!rc)
        rc = insert_trash(s, act, act->removal.first, act->removal.last,
                          act->removal.due_us, why);
    return rc ? rc
              : DB_DO(s->db, "remove generations", why,
                      "UPDATE generations SET is_archived = 0, due_us = ?"
                      " WHERE set_id = ? AND due_us IS NULL",
                      act->removal.due_us, act->set_id);
}

static enum status
apply_retirement(struct store_rows *s, const struct act *act,
                 struct problem *why)
{
    enum status rc =
        DB_DO(s->db, "store which lists are retained", why,
              "UPDATE sets SET first_list = ?, earliest = ?, file_bytes = ?"
              " WHERE id = ?",
              act->retirement.last + 1, act->retirement.earliest,
              act->retirement.file_bytes, act->set_id);

    return rc ? rc
              : insert_trash(s, act, act->retirement.first,
                             act->retirement.last, act->retirement.due_us, why);
}

/* Forgets the rows of the lists whose files are gone, and a slice of the
 * batches of a removed set. */
static enum status
apply_purged(struct store_rows *s, const struct act *act, struct problem *why)
{
    bool is_there, is_whole, is_paid = true;
    uint32_t set;
    enum status rc =
        db_find(s->db, NULL, why, &is_there,
                "SELECT set_id, is_whole FROM trash WHERE id = ?",
                DB_VALUES(act->purged.trash), DB_INTO(&set, &is_whole));

    if (rc || !is_there)
        return rc;
    rc = DB_DO(s->db, "forget facts about content", why,
               "DELETE FROM contents WHERE set_id = ?1 AND (?3 OR seq <="
               " (SELECT max(last) FROM lists WHERE set_id = ?1"
               " AND number <= ?2))",
               set, act->purged.upto, is_whole);
    if (rc)
        return rc;
    /* The last list of an existing set stays: it marks the end of the log when
     * no batch is left. */
    rc = DB_DO(s->db, "forget lists", why,
               "DELETE FROM lists WHERE set_id = ?1 AND number <= ?2"
               " AND (?3 OR number < (SELECT max(number) FROM lists"
               " WHERE set_id = ?1))",
               set, act->purged.upto, is_whole);
    if (!rc && is_whole)
        rc = forget_batches(s, set, INT64_MAX, &is_paid, why);
    if (!rc)
        rc = DB_DO(s->db, "store trash", why,
                   "UPDATE trash SET first = ? WHERE id = ?",
                   act->purged.upto + 1, act->purged.trash);
    if (!rc && is_paid)
        rc = DB_DO(s->db, "delete trash", why,
                   "DELETE FROM trash WHERE id = ? AND first > last",
                   act->purged.trash);
    return rc;
}

/* Acts on batches and lists */

static enum status
apply_batch(struct store_rows *s, const struct act *act, int64_t at_us,
            struct problem *why)
{
    const struct batch *b = act->entries.batch;
    bool is_in_row = s->place.number == 0 || !segments_take(b);
    enum status rc = DB_DO(
        s->db, "store a batch", why,
        "INSERT INTO batches(set_id, first, last, before_us, last_us, list,"
        " list_bytes, before, digest, body, accepted_us, commit_after, segment,"
        " at, size) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        act->set_id, b->first, b->last, b->before_us, b->last_us, b->list,
        b->list_bytes, &b->before, &b->digest,
        db_bytes(b->bytes, is_in_row ? b->size : 0), at_us,
        act->entries.commit_after, is_in_row ? 0 : s->place.number,
        is_in_row ? 0 : s->place.offset, is_in_row ? 0 : b->size);

    if (rc || is_in_row)
        return rc;
    s->place.offset += b->size;
    s->last_id = sqlite3_last_insert_rowid(s->db->handle);
    if (s->first_id == 0)
        s->first_id = s->last_id;
    note_use(s, s->place.number, (int64_t)b->size);
    return STATUS_OK;
}

static enum status
apply_list_end(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct list_info *info = &act->list_end.info;

    return DB_DO(s->db, "store the end of a list", why,
                 "INSERT INTO lists(set_id, " LIST_COLUMNS ", header,"
                 " commit_after) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
                 act->set_id, info->number, info->after, info->last,
                 info->from_us, info->until_us, info->bytes, &info->before,
                 &info->digest, db_blob(act->list_end.header),
                 act->list_end.commit_after);
}

static enum status
apply_filed(struct store_rows *s, const struct act *act, struct problem *why)
{
    enum status rc =
        DB_DO(s->db, "store that a list is filed", why,
              "UPDATE lists SET filed = 1, marks = ?"
              " WHERE set_id = ? AND number = ?",
              db_blob(act->filed.marks), act->set_id, act->filed.list);

    return rc ? rc
              : DB_DO(s->db, "store the size of a set", why,
                      "UPDATE sets SET file_bytes = ? WHERE id = ?",
                      act->filed.file_bytes, act->set_id);
}

static enum status
apply_content(struct store_rows *s, const struct act *act, struct problem *why)
{
    const struct content_fact *fact = &act->content;

    return DB_DO(
        s->db, "store a fact about content", why,
        "INSERT INTO contents(set_id, seq, due_us, digest, length,"
        " bytes) VALUES(?, ?, ?, ?, ?, ?)",
        act->set_id, fact->seq, fact->due_us, &fact->digest, fact->length,
        db_bytes(fact->bytes.data, fact->is_here ? 0 : fact->bytes.size));
}

/* Acts on generations */

/* The current generation of a kind of a set is the last that is not due. */
#define CURRENT_OF                                               \
    "(SELECT max(number) FROM generations WHERE set_id = ?1 AND" \
    " kind = ?2 AND due_us IS NULL AND NOT " GENERATION_IS_ORDER ")"

static enum status
apply_generation(struct store_rows *s, const struct act *act,
                 struct problem *why)
{
    const struct generation *new = &act->generation.build;
    enum status rc = DB_DO(
        s->db, "store the former generation", why,
        generation_is_order(new)
            ? "UPDATE generations SET is_archived = 0, due_us = ?3"
              " WHERE set_id = ?1 AND kind = ?2 AND " GENERATION_IS_ORDER
            : "UPDATE generations SET due_us = ?3 WHERE set_id = ?1 AND"
              " kind = ?2 AND number = " CURRENT_OF " AND NOT is_archived",
        act->set_id, new->kind, act->generation.due_us);

    if (rc)
        return rc;
    /* A list has the number of its order. */
    return DB_DO(s->db, "store a generation", why,
                 "INSERT OR REPLACE INTO generations(set_id, name,"
                 " " GENERATION_COLUMNS
                 ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 act->set_id, act->name, new->kind, new->number, new->after,
                 new->seq, new->from_us, new->at_us, new->completed_us, new->n,
                 new->parts, new->bytes, new->is_archived);
}

enum status
store_rows_apply(struct store_rows *s, const struct act *act, int64_t at_us,
                 struct problem *why)
{
    switch (act->kind) {
    case ACT_BIRTH:
        /* The log thread took the id from next_id (struct engine_ops), which
         * moves only when the commit is durable, so a refused commit uses up no
         * id. The row's primary key refuses an id that is in use, and with it
         * the commit. */
        return DB_DO(s->db, "store a set", why,
                     "INSERT INTO sets(id, name, epoch, created_us, start_list,"
                     " creator) VALUES(?, ?, ?, ?, ?, ?)",
                     act->set_id, act->name, act->birth.epoch,
                     act->birth.created_us, act->birth.start_list,
                     db_blob(act->birth.creator));
    case ACT_BATCH:
        return apply_batch(s, act, at_us, why);
    case ACT_LIST_END:
        return apply_list_end(s, act, why);
    case ACT_SETTINGS:
        return DB_DO(s->db, "store the settings of a set", why,
                     "UPDATE sets SET settings = ?, changed_us = ?"
                     " WHERE id = ?",
                     act->settings.text, act->settings.changed_us, act->set_id);
    case ACT_RETIREMENT:
        return apply_retirement(s, act, why);
    case ACT_REMOVAL:
        return apply_removal(s, act, why);
    case ACT_GENERATION:
        return apply_generation(s, act, why);
    case ACT_UNARCHIVED:
        return DB_DO(s->db, "store which generations are archived", why,
                     "UPDATE generations SET is_archived = 0, due_us = ?"
                     " WHERE set_id = ? AND kind = ? AND is_archived"
                     " AND number < ?",
                     act->unarchived.due_us, act->set_id, act->unarchived.kind,
                     act->unarchived.first_archived);
    case ACT_HARVEST:
        return DB_DO(s->db, "store the harvest of a set", why,
                     "UPDATE sets SET harvest = ? WHERE id = ?",
                     act->harvest.text, act->set_id);
    case ACT_EPOCH: /* head_change_epoch */
        return DB_DO(s->db, "store the epoch of a set", why,
                     "UPDATE sets SET former = iif(former <> '' AND began ="
                     " ?2, former, epoch), epoch = ?1, began = ?2,"
                     " origin = iif(?2 = 0, ?1, iif(origin = '', epoch,"
                     " origin)), former_list = ?4, former_dump = ?5"
                     " WHERE id = ?3",
                     act->epoch.name, act->epoch.after, act->set_id,
                     act->epoch.builds[GENERATION_RESOURCELIST],
                     act->epoch.builds[GENERATION_RESOURCEDUMP]);
    case ACT_CONTENT:
        return apply_content(s, act, why);
    case ACT_TAKEN:
        return DB_DO(s->db, "forget bytes of content", why,
                     "UPDATE contents SET bytes = NULL WHERE set_id = ?"
                     " AND id > ? AND id <= ?",
                     act->set_id, act->taken.after, act->taken.upto);
    case ACT_FILED:
        return apply_filed(s, act, why);
    case ACT_PURGED:
        return apply_purged(s, act, why);
    case ACT_SWEPT:
        return DB_DO(s->db, "forget a generation", why,
                     "DELETE FROM generations WHERE id = ?", act->swept.id);
    case ACT_GUARD:
        return act->guard.is_on
                   ? DB_DO(s->db, "remember that the broker is closed", why,
                           "INSERT OR IGNORE INTO guard VALUES(1)")
                   : DB_DO(s->db, "forget that the broker was closed", why,
                           "DELETE FROM guard");
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

/* Loads the head that the last rows of a set lead to: the last batch, or, when
 * that has gone to a file, the last closed list. A row of an earlier version
 * lacks commit_after. */
static enum status
load_head(struct store_rows *s, uint32_t id, struct head *head,
          struct problem *why)
{
    struct list_info info;
    bool is_there;
    enum status rc = db_find(
        s->db, NULL, why, &is_there,
        "SELECT " LIST_COLUMNS ", coalesce(commit_after, last - 1)"
        " FROM lists WHERE set_id = ? ORDER BY number DESC LIMIT 1",
        DB_VALUES(id), DB_INTO(LIST_PLACES(&info), &head->commit_after));

    if (!rc && is_there) {
        head->list = info.number + 1;
        head->last = head->list_after = info.last;
        head->last_us = head->list_from_us = info.until_us;
        head->digest = head->list_before = info.digest;
    }
    if (!rc)
        rc = db_find(s->db, NULL, why, NULL,
                     "SELECT last, last_us, iif(last > ?2, list_bytes, 0),"
                     " digest, coalesce(commit_after, first - 1) FROM (SELECT *"
                     " FROM batches WHERE set_id = ?1 ORDER BY first DESC"
                     " LIMIT 1) WHERE last >= ?2",
                     DB_VALUES(id, head->last),
                     DB_INTO(&head->last, &head->last_us, &head->list_bytes,
                             &head->digest, &head->commit_after));
    if (rc || head->last == head->list_after)
        return rc;

    /* The age of the open list counts from the acceptance of its first entry,
     * not from the source's time. */
    return db_find(s->db, NULL, why, NULL,
                   "SELECT coalesce(accepted_us, last_us) FROM batches"
                   " WHERE set_id = ? AND first > ? ORDER BY first LIMIT 1",
                   DB_VALUES(id, head->list_after),
                   DB_INTO(&head->list_first_us));
}

/* Loads the generations of one kind into `to`, which head_number_lists has
 * begun. */
static enum status
load_generations(struct store_rows *s, uint32_t set, enum generation_kind kind,
                 struct generations *to, struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(s->db, NULL, why, &is_there,
                "SELECT " GENERATION_COLUMNS " FROM generations"
                " WHERE set_id = ?1 AND kind = ?2 AND number = " CURRENT_OF,
                DB_VALUES(set, kind), DB_INTO(GENERATION_PLACES(&to->current)));

    if (!rc && is_there)
        to->last = to->current.number;
    if (!rc)
        rc = db_find(s->db, NULL, why, &is_there,
                     "SELECT " GENERATION_COLUMNS " FROM generations"
                     " WHERE set_id = ? AND kind = ? AND " GENERATION_IS_ORDER,
                     DB_VALUES(set, kind),
                     DB_INTO(GENERATION_PLACES(&to->ordered)));
    if (!rc && is_there)
        to->last = to->ordered.number;
    return rc ? rc
              : db_find(s->db, NULL, why, NULL,
                        "SELECT count(*), min(number) FROM generations"
                        " WHERE set_id = ? AND kind = ? AND is_archived"
                        " AND NOT " GENERATION_IS_ORDER,
                        DB_VALUES(set, kind),
                        DB_INTO(&to->n_archived, &to->first_archived));
}

enum status
store_rows_load(struct store_rows *s, engine_set_fn *on_set, void *user,
                struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(s->db, "read the sets", why,
                  "SELECT id, name, epoch, iif(origin = '', epoch, origin),"
                  " former, began, former_list, former_dump, created_us,"
                  " settings, creator,"
                  " harvest, changed_us, file_bytes, earliest, start_list,"
                  " iif(first_list, first_list, start_list) FROM sets"
                  " ORDER BY name");
    char name[SET_NAME_MAX + 1];
    struct engine_set set = {.name = name};
    struct engine_set removed = {.name = name, .head.is_removed = true};
    struct head row;
    uint64_t start_list;
    enum status rc;

    while (DB_NEXT(&rows, &set.id, &name, &row.epoch, &row.origin, &row.former,
                   &row.began, &row.former_builds[GENERATION_RESOURCELIST],
                   &row.former_builds[GENERATION_RESOURCEDUMP], &row.created_us,
                   &set.settings, &set.creator, &set.harvest, &row.changed_us,
                   &row.file_bytes, &row.earliest, &start_list,
                   &row.first_list)) {
        head_start(&set.head, row.epoch, row.created_us);
        head_number_lists(&set.head, start_list);
        memcpy(set.head.origin, row.origin, sizeof(row.origin));
        memcpy(set.head.former, row.former, sizeof(row.former));
        memcpy(set.head.former_builds, row.former_builds,
               sizeof(row.former_builds));
        set.head.began = row.began;
        set.head.first_list = row.first_list;
        set.head.earliest = row.earliest;
        set.head.changed_us = row.changed_us;
        set.head.file_bytes = row.file_bytes;
        rows.rc = load_head(s, set.id, &set.head, why);
        for (int kind = 0; !rows.rc && kind < GENERATION_KINDS; kind++)
            rows.rc = load_generations(s, set.id, (enum generation_kind)kind,
                                       &set.head.generations[kind], why);
        if (!rows.rc)
            rows.rc = note_filed(s, set.id, why);
        if (!rows.rc)
            rows.rc = on_set(&set, user, why);
    }
    rc = db_rows_end(&rows);
    if (rc)
        return rc;
    /* The names of removed sets, also of sets that were made again: an existing
     * set goes before its tombstone. */
    rows = DB_SELECT(s->db, "read the sets", why,
                     "SELECT name, list, removed_us, creator FROM tombstones"
                     " ORDER BY name");
    while (DB_NEXT(&rows, &name, &removed.head.list, &removed.removed_us,
                   &removed.creator))
        rows.rc = on_set(&removed, user, why);
    return db_rows_end(&rows);
}

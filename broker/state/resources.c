/*
 * The file has the resources and the properties of the state:
 *
 *   resources  id, seq, entry
 *   keys       key (resource_key of the loc), id; rest1 and rest2: the second
 *              half of the id of its entry (resource_id.h), two numbers; NULL
 *              behind `ids`
 *   state      its only row: epoch, seq, us, digest, n, bytes, is_whole, began,
 *              whole_at; ids: up to that key the ids are known, NULL: nobody
 *              has asked for any; sums: of these ids, by first bytes
 *
 * Five million resources have 1.5 GB of rows, which do not fit into memory, and
 * a change may concern any of them: nearly each is on another page. So many
 * changes are gathered, and then sorted in the order of the database: one way
 * through its keys, and one through its rows. Each page is read and written
 * once, before memory is short, and the cache only needs the upper pages of
 * both trees.
 *
 * PRAGMA synchronous=NORMAL: a commit is an append to the WAL without an fsync:
 * the kernel has it, and survives kill -9. After a power failure the file is as
 * of an earlier commit. A checkpoint makes commits firm: it syncs the WAL, then
 * writes the file, then syncs that. Nothing else syncs, not even a close, which
 * happens whenever another set has its turn.
 */
#include "broker/state/resources.h"

#include "base/array.h"
#include "base/file.h"

/* The limits of gathering for one commit: so many that a page of the index
 * serves several changes, and so few that a step is short and needs little
 * memory. */
#define GATHER_ENTRIES 64000
#define GATHER_BYTES   ((size_t)16 << 20)

/* Keys that get their ids in one step. */
#define STEP_IDS 65536

/* The size of the WAL, in pages of 4 KiB, from which on a checkpoint moves it
 * into the file. Small, because a closed state keeps its WAL, and there may be
 * 50,000 states; but so large that many small steps share an fsync. */
#define WAL_PAGES 256

static const char *const steps[] = {
    "CREATE TABLE resources("
    " id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, entry BLOB NOT NULL);"
    "CREATE TABLE keys("
    " key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE state("
    " id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL,"
    " us INTEGER NOT NULL, digest BLOB, n INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, is_whole INTEGER NOT NULL);",
    /* An upper bound for a state that is not whole. */
    "ALTER TABLE state ADD COLUMN began INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE state ADD COLUMN whole_at INTEGER NOT NULL DEFAULT 0;"
    "UPDATE state SET began=seq WHERE NOT is_whole",
    "ALTER TABLE keys ADD COLUMN rest1 INTEGER;"
    "ALTER TABLE keys ADD COLUMN rest2 INTEGER;"
    "ALTER TABLE state ADD COLUMN ids BLOB;"
    "ALTER TABLE state ADD COLUMN sums BLOB",
};

const struct db_kind resources_kind = {
    .mode = DB_SMALL,
    DB_STEPS(steps),
    .opening = "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;"
               "PRAGMA cache_size=-4096", /* KiB */
};

/* The last change of a resource. */
struct gathered {
    struct keyed last;  /* its last change */
    int64_t id;         /* of its row, from 1; 0: none */
    bool is_new;        /* the file lacks its row */
    bool is_created;    /* by its last change */
    bool was_deleted;   /* before its last creation here */
    uint64_t first_seq; /* of its first change here, behind that deletion */
    uint64_t rest[2];   /* of its id, if the key is up to `ids` */
    size_t entry;       /* the offset of its entry */
    size_t size;        /* of the entry; 0: deleted */
};

struct resources {
    struct fold_db fold;
    int wal_pages;             /* after the last commit */
    struct resources_at state; /* as of the last commit */
    struct buf ids;            /* as in the file; empty: nobody has asked */
    char ids_memory[RESOURCE_KEY_SIZE + 1];
    struct id_sum sums[RESOURCE_PARTS]; /* of the ids; with the changes of the
                                           open transaction, too */
    struct db_rows walk;                /* of resources_next */
    int64_t walked;                     /* the last id of the walk; 0: none */
};

void
resource_key(struct resource_key *key, struct slice loc)
{
    struct digest digest;

    digest_sha256(&digest, loc);
    memcpy(key->bytes, digest.bytes, sizeof(key->bytes));
}

int
keyed_compare(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;
    int order = memcmp(&a->key, &b->key, sizeof(a->key));

    return order ? order : a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Ids */

/* True if the file has the id of the resource. */
static bool
has_id(const struct resources *r, const struct resource_key *key)
{
    return slice_compare((struct slice){(const char *)key, sizeof(*key)},
                         buf_slice(&r->ids)) <= 0;
}

void
resource_row_id(struct digest *id, const void *key, const uint64_t rest[2])
{
    const uint64_t big[2] = {htobe64(rest[0]), htobe64(rest[1])};

    memcpy(id->bytes, key, RESOURCE_KEY_SIZE);
    memcpy(id->bytes + RESOURCE_ID_HALF, big, sizeof(big));
}

/* Adds the id of a row to the sums, or takes it out. */
static void
count_id(struct resources *r, const struct gathered *row, bool is_added)
{
    struct digest id;

    if (!has_id(r, &row->last.key))
        return;
    resource_row_id(&id, &row->last.key, row->rest);
    (is_added ? id_sum_add : id_sum_remove)(&r->sums[id.bytes[0]], &id);
}

/* Computes the second half of the id of an entry. */
static void
compute_rest(uint64_t rest[2], struct slice entry)
{
    struct digest id;

    fragment_id(&id, entry);
    memcpy(rest, id.bytes + RESOURCE_ID_HALF, RESOURCE_ID_HALF);
    rest[0] = be64toh(rest[0]);
    rest[1] = be64toh(rest[1]);
}

/* Gathering */

static enum status
gather_entry(struct fold_db *f, struct slice fragment, uint32_t stamp,
             uint64_t seq)
{
    enum change_kind kind = fragment_kind(fragment.data, stamp);
    struct gathered *row = f->rows;

    if (!ONE_MORE(row, &f->capacity, f->n))
        return STATUS_MEMORY;
    f->rows = row;
    row += f->n;
    *row = (struct gathered){.is_created = kind == CHANGE_CREATED,
                             .first_seq = seq,
                             .last.seq = seq,
                             .entry = f->texts.size};
    resource_key(&row->last.key, fragment_loc(fragment));
    if (kind != CHANGE_DELETED)
        fragment_resource(&f->texts, fragment, stamp);
    row->size = f->texts.size - row->entry;
    if (f->texts.failed)
        return STATUS_MEMORY;
    if (row->size > 0 && has_id(resources_of(f), &row->last.key))
        compute_rest(row->rest, slice_from(buf_slice(&f->texts), row->entry));
    f->n++;
    return STATUS_OK;
}

static int
compare_ids(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;

    return a->id < b->id ? -1 : a->id > b->id;
}

/* The file */

static int
on_wal(void *user, sqlite3 *handle, const char *name, int pages)
{
    struct resources *r = user;

    (void)handle;
    (void)name;
    r->wal_pages = pages;
    return SQLITE_OK;
}

static enum status
read_state(struct fold_db *f, struct problem *why)
{
    struct resources *r = resources_of(f);
    struct resources_at *at = &r->state;
    struct buf sums = {.max = RESOURCE_SUMS_SIZE};
    enum status rc;

    sqlite3_db_config(f->db.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_wal_hook(f->db.handle, on_wal, r);
    r->wal_pages = 0;
    buf_init_fixed(&r->ids, r->ids_memory, sizeof(r->ids_memory));
    memset(r->sums, 0, sizeof(r->sums));
    r->state = (struct resources_at){.whole_at = 0};
    rc = db_find(&f->db, NULL, why, NULL,
                 "SELECT epoch, seq, us, n, bytes, is_whole, digest,"
                 " length(digest)=32, began, whole_at, ids, sums FROM state",
                 DB_VALUES(),
                 DB_INTO(&f->epoch, &at->seq, &at->us, &at->n, &at->bytes,
                         &at->is_whole, &f->at.digest, &f->at.has_digest,
                         &at->began, &r->state.whole_at, &r->ids, &sums));
    f->at.seq = at->seq;
    resource_sums_read(r->sums, buf_slice(&sums));
    at->has_ids = r->ids.size > RESOURCE_KEY_SIZE;
    buf_fini(&sums);
    return rc;
}

/* Ends the walk and its read transaction: it lends nothing afterwards. */
static void
end_walk(struct fold_db *f)
{
    struct resources *r = resources_of(f);

    (void)!db_rows_end(&r->walk);
    r->walk = (struct db_rows){NULL};
    r->walked = 0;
}

/* Writing */

/* Changes a row that has its key. */
static enum status
change_row(struct resources *r, const struct gathered *row, struct slice entry,
           struct resources_at *at, struct problem *why)
{
    uint64_t before = 0;
    enum status rc = db_find(&r->fold.db, NULL, why, NULL,
                             "SELECT length(entry) FROM resources WHERE id=?",
                             DB_VALUES(row->id), DB_INTO(&before));

    if (rc)
        return rc;
    if (before == 0) {
        r->fold.db.is_damaged = true;
        return problem(why, STATUS_IO, RESOURCES_FILE " lacks a row");
    }
    at->bytes -= before;
    at->bytes += entry.size;
    if (entry.size)
        return DB_DO(&r->fold.db, NULL, why,
                     "UPDATE resources SET seq=?, entry=? WHERE id=?",
                     row->last.seq, db_blob(entry), row->id);
    at->n--;
    return DB_DO(&r->fold.db, NULL, why, "DELETE FROM resources WHERE id=?",
                 row->id);
}

static enum status
insert_row(struct resources *r, const struct gathered *row, struct slice entry,
           struct problem *why)
{
    return DB_DO(&r->fold.db, NULL, why,
                 "INSERT INTO resources(id, seq, entry) VALUES(?,?,?)", row->id,
                 row->last.seq, db_blob(entry));
}

static struct db_value
key_of(const struct gathered *row)
{
    return db_bytes(&row->last.key, sizeof(row->last.key));
}

/* Looks for a key, and sets row->id; 0: the file lacks it. Then takes its id
 * out of the sums. */
static enum status
find_key(struct resources *r, struct gathered *row, struct problem *why)
{
    struct gathered old = *row;
    enum status rc;

    row->id = 0;
    rc = db_find(&r->fold.db, NULL, why, NULL,
                 "SELECT id, rest1, rest2 FROM keys WHERE key=?",
                 DB_VALUES(key_of(row)),
                 DB_INTO(&row->id, &old.rest[0], &old.rest[1]));
    if (!rc && row->id)
        count_id(r, &old, false);
    return rc;
}

/* NULL: the file does not have the id yet. */
static struct db_value
rest_of(const struct resources *r, const struct gathered *row, int i)
{
    return has_id(r, &row->last.key)
               ? (struct db_value){DB_INTEGER, .number = (int64_t)row->rest[i]}
               : (struct db_value){.type = DB_NULL};
}

/* Writes a key with that id, unless the file has the key. */
static enum status
add_key(struct resources *r, struct gathered *row, int64_t id,
        struct problem *why)
{
    enum status rc =
        DB_DO(&r->fold.db, NULL, why,
              "INSERT OR IGNORE INTO keys(key, id, rest1, rest2)"
              " VALUES(?,?,?,?)",
              key_of(row), id, rest_of(r, row, 0), rest_of(r, row, 1));

    row->is_new = !rc && sqlite3_changes(r->fold.db.handle) > 0;
    if (row->is_new) {
        row->id = id;
        count_id(r, row, true);
    }
    return rc;
}

/* Gives a key that was found the id of the row. */
static enum status
change_id(struct resources *r, const struct gathered *row, struct problem *why)
{
    if (!has_id(r, &row->last.key))
        return STATUS_OK;
    count_id(r, row, true);
    return DB_DO(&r->fold.db, NULL, why,
                 "UPDATE keys SET rest1=?, rest2=? WHERE key=?",
                 rest_of(r, row, 0), rest_of(r, row, 1), key_of(row));
}

static enum status
delete_key(struct resources *r, const struct gathered *row, struct problem *why)
{
    return DB_DO(&r->fold.db, NULL, why, "DELETE FROM keys WHERE key=?",
                 key_of(row));
}

/* Writes a key, and sets the id of its row. A resource that is new to the file
 * gets `id`. A key that is probably new is written without a search. */
static enum status
write_key(struct resources *r, struct gathered *row, int64_t id,
          struct resources_at *at, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (row->size == 0) {
        rc = find_key(r, row, why);
        return !rc && row->id ? delete_key(r, row, why) : rc;
    }
    if (row->was_deleted || !row->is_created)
        rc = find_key(r, row, why);
    /* A resource that was deleted and created again gets a new row, behind all
     * others: so the order of rows depends on the entries only, and not on
     * which of them are folded together. */
    if (row->was_deleted && row->id) {
        if (!rc)
            rc = change_row(r, row, (struct slice){NULL, 0}, at, why);
        if (!rc)
            rc = delete_key(r, row, why);
        row->id = 0;
    }
    if (!rc && !row->id) {
        rc = add_key(r, row, id, why);
        if (!rc && !row->id)
            rc = find_key(r, row, why);
        if (rc || row->is_new)
            return rc;
    }
    return rc ? rc : change_id(r, row, why);
}

/* Writes the keys in the order of keys, and leaves only the last row of each
 * resource. A resource that was deleted and created again counts as new. New
 * ids follow the order of creation. */
static enum status
write_keys(struct resources *r, struct resources_at *at, struct problem *why)
{
    struct gathered *rows = r->fold.rows;
    size_t n = 0;
    int64_t last = 0;
    enum status rc;

    if (r->fold.n == 0)
        return STATUS_OK;
    rc = db_find(&r->fold.db, NULL, why, NULL, "SELECT max(id) FROM resources",
                 DB_VALUES(), DB_INTO(&last));
    qsort(rows, r->fold.n, sizeof(*rows), keyed_compare);
    for (size_t i = 0; i < r->fold.n; i++) {
        struct gathered row = rows[i];

        if (n > 0 && !memcmp(&rows[n - 1].last.key, &row.last.key,
                             sizeof(row.last.key))) {
            const struct gathered *earlier = &rows[--n];

            row.was_deleted |= earlier->was_deleted || earlier->size == 0;
            if (earlier->size > 0)
                row.first_seq = earlier->first_seq;
        }
        rows[n++] = row;
    }
    r->fold.n = n;
    for (size_t i = 0; !rc && i < n; i++) {
        uint64_t nth = rows[i].first_seq - r->state.seq;

        rc = write_key(r, &rows[i], last + (int64_t)nth, at, why);
    }
    return rc;
}

static enum status
write_state(struct resources *r, const struct resources_at *state,
            const struct fold_mark *mark, struct problem *why)
{
    const struct db_value none = {.type = DB_NULL};
    const uint64_t *words = (const uint64_t *)r->sums;
    struct buf sums = {.max = RESOURCE_SUMS_SIZE};
    bool is_asked = r->ids.size > 0;
    enum status rc;

    for (size_t i = 0; 8 * i < RESOURCE_SUMS_SIZE; i++)
        buf_add_big_endian(&sums, words[i], 8);
    rc = DB_DO(&r->fold.db, NULL, why,
               "INSERT OR REPLACE INTO state(id, epoch, seq, us, digest, n,"
               " bytes, is_whole, began, whole_at, ids, sums)"
               " VALUES(1,?,?,?,?,?,?,?,?,?,?,?)",
               r->fold.epoch, state->seq, state->us,
               mark->has_digest ? &mark->digest : NULL, state->n, state->bytes,
               state->is_whole, state->began, state->whole_at,
               is_asked ? db_blob(buf_slice(&r->ids)) : none,
               is_asked ? db_blob(buf_slice(&sums)) : none);
    buf_fini(&sums);
    return rc;
}

/* Writes all gathered changes and the row of `state` in one transaction;
 * updates the counts in *state. The state then is at `mark`. */
static enum status
write_batch(struct resources *r, struct resources_at *state,
            const struct fold_mark *mark, struct problem *why)
{
    struct gathered *rows = r->fold.rows;
    enum status rc = db_begin(&r->fold.db, why);

    if (!rc)
        rc = write_keys(r, state, why);
    /* The rows in the order of ids: new ones come last, in the order of their
     * creation. */
    if (!rc && r->fold.n > 0)
        qsort(rows, r->fold.n, sizeof(*rows), compare_ids);
    for (size_t i = 0; !rc && i < r->fold.n; i++) {
        const struct gathered *row = &rows[i];
        struct slice entry = {r->fold.texts.data + row->entry, row->size};

        if (row->is_new) {
            state->n++;
            state->bytes += entry.size;
            rc = insert_row(r, row, entry, why);
        } else if (row->id) {
            rc = change_row(r, row, entry, state, why);
        }
    }
    if (!rc)
        rc = write_state(r, state, mark, why);
    rc = db_end(&r->fold.db, rc, why);
    if (!rc) {
        r->state = *state;
        r->fold.at = *mark;
    }
    return rc;
}

/* Folding */

/* Makes the state whole if everything that was missing is folded. */
static void
look_if_whole(struct resources_at *state)
{
    if (state->whole_at == 0 || state->seq < state->whole_at)
        return;
    state->is_whole = true;
    state->whole_at = 0;
}

static enum status
commit_batch(struct fold_db *f, struct problem *why)
{
    struct resources *r = resources_of(f);
    struct resources_at next = r->state;

    next.seq = f->gathered.seq;
    next.us = f->gathered.us;
    look_if_whole(&next);
    return write_batch(r, &next, &f->gathered, why);
}

static enum status
keep_long_wal(struct fold_db *f, struct problem *why)
{
    struct resources *r = resources_of(f);

    return r->wal_pages >= WAL_PAGES ? resources_keep(r, why) : STATUS_OK;
}

/* Life */

static enum status
begin_file(struct fold_db *f, struct problem *why)
{
    struct resources *r = resources_of(f);
    struct resources_at state = {.seq = f->at.seq,
                                 .us = DATETIME_NONE,
                                 .began = f->at.seq,
                                 .is_whole = f->at.seq == 0};

    return write_batch(r, &state, &f->at, why);
}

const struct fold_kind resources_folding = {
    .db = &resources_kind,
    .file = RESOURCES_FILE,
    .begins_anew = "the state of a set begins anew",
    .is_damaged = "the state of a set is damaged, and will begin anew",
    .size = sizeof(struct resources),
    .max_entries = GATHER_ENTRIES,
    .max_bytes = GATHER_BYTES,
    .read = read_state,
    .begin = begin_file,
    .gather = gather_entry,
    .commit = commit_batch,
    .keep = keep_long_wal,
    .release = end_walk,
};

const struct resources_at *
resources_at(const struct resources *r)
{
    return &r->state;
}

enum status
resources_keep(struct resources *r, struct problem *why)
{
    int result;
    enum status rc;

    end_walk(&r->fold);
    if (r->state.kept == r->state.seq)
        return STATUS_OK;
    /* A checkpoint cannot be stopped midway, and the next start can do without
     * this one. */
    if (r->fold.is_ending && load_relaxed(r->fold.is_ending))
        return problem(why, STATUS_STOPPED, "the broker is ending");
    result = sqlite3_wal_checkpoint_v2(r->fold.db.handle, NULL,
                                       SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (result)
        return db_problem(&r->fold.db, result, "make " RESOURCES_FILE " firm",
                          why);
    r->wal_pages = 0;
    rc = file_sync_path(r->fold.dir, why); /* the names of new files */
    if (!rc)
        r->state.kept = r->state.seq;
    return rc;
}

enum status
resources_fill(struct resources *r, uint64_t seq, struct slice entry,
               struct problem *why)
{
    struct gathered row = {.id = (int64_t)r->state.n + 1, .last.seq = seq};
    enum status rc = STATUS_OK;

    if (sqlite3_get_autocommit(r->fold.db.handle))
        rc = db_begin(&r->fold.db, why);
    resource_key(&row.last.key, fragment_loc(entry));
    if (!rc)
        rc = add_key(r, &row, row.id, why);
    if (!rc && !row.is_new)
        rc = problem(why, STATUS_DIFFERENT, "it names a resource twice");
    if (!rc)
        rc = insert_row(r, &row, entry, why);
    if (rc)
        return rc;
    r->state.n++;
    r->state.bytes += entry.size;
    return STATUS_OK;
}

enum status
resources_fill_end(struct resources *r, uint64_t seq, int64_t us,
                   struct problem *why)
{
    enum status rc = STATUS_OK;

    if (sqlite3_get_autocommit(r->fold.db.handle)) /* no resource was added */
        rc = db_begin(&r->fold.db, why);
    r->state.seq = seq;
    r->state.us = us;
    r->state.is_whole = true;
    r->state.began = 0;
    r->state.whole_at = 0;
    r->fold.at = (struct fold_mark){.seq = seq};
    if (!rc)
        rc = write_state(r, &r->state, &r->fold.at, why);
    rc = db_end(&r->fold.db, rc, why);
    fold_db_forget(&r->fold);
    return rc ? rc : resources_keep(r, why);
}

enum status
resources_heal(struct resources *r, uint64_t began, uint64_t seq,
               struct problem *why)
{
    struct resources_at healed = r->state;
    enum status rc;

    end_walk(&r->fold);
    if (r->state.is_whole || r->state.began != began)
        return STATUS_OK;
    healed.whole_at = seq;
    look_if_whole(&healed);
    fold_db_forget(&r->fold);
    rc = write_batch(r, &healed, &r->fold.at, why);
    if (rc)
        return rc;
    r->state.kept = 0; /* the seq may be the same, but this state is not on the
                    disk */
    return resources_keep(r, why);
}

/* Ids for all keys */

/* Gives ids to the next STEP_IDS keys without one, in their order. The last
 * step makes `ids` higher than any key. */
static enum status
add_ids(struct resources *r, struct gathered *rows, struct problem *why)
{
    static const char all[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                              "\xff\xff\xff\xff\xff\xff\xff\xff";
    struct slice key, entry;
    size_t n;
    struct db_rows found =
        DB_SELECT(&r->fold.db, NULL, why,
                  "SELECT key, entry FROM keys CROSS JOIN resources USING (id)"
                  " WHERE key>? ORDER BY key LIMIT ?",
                  db_blob(buf_slice(&r->ids)), STEP_IDS);
    enum status rc;

    for (n = 0; DB_NEXT(&found, &key, &entry); n++) {
        memcpy(&rows[n].last.key, key.data,
               key.size < RESOURCE_KEY_SIZE ? key.size : RESOURCE_KEY_SIZE);
        compute_rest(rows[n].rest, entry);
    }
    rc = db_rows_end(&found);
    buf_clear(&r->ids);
    buf_add(&r->ids, all, sizeof(all) - 1);
    for (size_t i = 0; !rc && i < n; i++)
        rc = change_id(r, &rows[i], why);
    if (n == STEP_IDS) {
        buf_clear(&r->ids);
        buf_add(&r->ids, &rows[n - 1].last.key, RESOURCE_KEY_SIZE);
    }
    return rc;
}

enum status
resources_add_ids(struct resources *r, struct problem *why)
{
    struct gathered *rows;
    enum status rc;

    if (r->state.has_ids)
        return STATUS_OK;
    end_walk(&r->fold);
    rows = memory_new(STEP_IDS, sizeof(*rows));
    rc = db_begin(&r->fold.db, why);
    if (!rc)
        rc = add_ids(r, rows, why);
    if (!rc)
        rc = write_state(r, &r->state, &r->fold.at, why);
    rc = db_end(&r->fold.db, rc, why);
    free(rows);
    r->state.has_ids = !rc && r->ids.size > RESOURCE_KEY_SIZE;
    if (rc || r->wal_pages < WAL_PAGES)
        return rc;
    r->state.kept = 0; /* the seq is the same, but not the file */
    return resources_keep(r, why);
}

void
resource_sums_read(struct id_sum sums[RESOURCE_PARTS], struct slice bytes)
{
    uint64_t *words = (uint64_t *)sums;

    for (size_t i = 0; 8 * i < RESOURCE_SUMS_SIZE; i++)
        (void)!slice_take_big_endian(&bytes, &words[i], 8);
}

void
resources_sum(const struct resources *r, struct id_sum *sum)
{
    *sum = (struct id_sum){.n = 0};
    for (size_t i = 0; i < RESOURCE_PARTS; i++)
        id_sum_merge(sum, &r->sums[i]);
}

/* Reading */

enum status
resources_next(struct resources *r, int64_t id, struct resources_entry *entry,
               struct problem *why)
{
    /* A step behind the last one continues the query. */
    if (id == 0 || r->walked != id) {
        end_walk(&r->fold);
        r->walk = DB_SELECT(
            &r->fold.db, NULL, why,
            "SELECT id, seq, entry FROM resources WHERE id>? ORDER BY id", id);
    }
    r->walked = 0;
    r->walk.why = why;
    if (DB_NEXT(&r->walk, &entry->id, &entry->seq, &entry->entry)) {
        r->walked = entry->id;
        return STATUS_OK;
    }
    return r->walk.rc
               ? r->walk.rc
               : problem(why, STATUS_NOT_FOUND, "there are no more resources");
}

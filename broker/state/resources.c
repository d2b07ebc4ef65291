/*
 * The file has the resources and the properties of the state:
 *
 *   resources  id, seq, entry
 *   keys       key (resource_key of the loc), id
 *   state      its only row: epoch, seq, us, digest, n, bytes, is_whole, began,
 *              whole_at
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

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/db_rows.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "proto/datetime.h"
#include "proto/memory.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/position.h"

/* The limits of gathering for one commit: so many that a page of the index
 * serves several changes, and so few that a step is short and needs little
 * memory. */
#define GATHER_ENTRIES 64000
#define GATHER_BYTES   ((size_t)16 << 20)

/* The last batch may exceed GATHER_BYTES. */
#define GATHER_MAX (GATHER_BYTES + ((size_t)1 << 20))

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
};

const struct db_kind resources_kind = {
    .mode = DB_SMALL,
    .steps = steps,
    .n_steps = (int)(sizeof(steps) / sizeof(steps[0])),
    .opening = "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;"
               "PRAGMA cache_size=-4096", /* KiB */
};

/* The only row of `state`. */
struct state_row {
    char epoch[EPOCH_SIZE + 1]; /* "": none yet */
    struct resources_at at;
    struct digest digest; /* d(at.seq) */
    bool has_digest;      /* it is known */
    uint64_t whole_at;    /* it is whole when folded up to there; 0: unknown */
};

/* The last change of a resource. */
struct gathered {
    struct resource_key key;
    int64_t id;         /* of its row, from 1; 0: none */
    bool is_new;        /* the file lacks its row */
    bool is_created;    /* by its last change */
    bool was_deleted;   /* before its last creation here */
    uint64_t first_seq; /* of its first change here, behind that deletion */
    uint64_t seq;       /* of its last */
    size_t entry;       /* the offset of its entry */
    size_t size;        /* of the entry; 0: deleted */
};

struct fold_batch {
    struct gathered *rows;
    size_t n, capacity;
    struct buf entries;
};

struct resources {
    char path[4352];
    struct db db;
    int wal_pages;                /* after the last commit */
    const atomic_bool *is_ending; /* lent: resources_heed; or NULL */
    struct state_row state;       /* as of the last commit */
    struct state_row gathered;    /* as it will be, except `n` and `bytes` */
    struct fold_batch batch;
    uint64_t kept;
    bool is_same_log;    /* its digest was compared with the log's */
    struct db_rows walk; /* of resources_next */
    int64_t walked;      /* the last id of the walk; 0: none */
};

void
resource_key(struct resource_key *key, struct slice loc)
{
    struct digest digest;

    digest_sha256(&digest, loc);
    memcpy(key->bytes, digest.bytes, sizeof(key->bytes));
}

/* Gathering */

/* Prepares for entries of at most `bytes` in all. */
static void
init_batch(struct fold_batch *g, size_t bytes)
{
    memset(g, 0, sizeof(*g));
    buf_init(&g->entries, bytes);
}

/* Empties it, and frees its memory. */
static void
clear_batch(struct fold_batch *g)
{
    size_t max = g->entries.max;

    free(g->rows);
    buf_fini(&g->entries);
    init_batch(g, max);
}

/* Adds entry `seq`, a stamped fragment whose stamp is at `stamp`. */
static enum status
add_to_batch(struct fold_batch *g, struct slice fragment, uint32_t stamp,
             uint64_t seq)
{
    enum change_kind kind = fragment_kind(fragment.data, stamp);
    struct gathered *row;

    if (!ONE_MORE(g->rows, &g->capacity, g->n))
        return STATUS_MEMORY;
    row = &g->rows[g->n];
    resource_key(&row->key, fragment_loc(fragment));
    row->id = 0;
    row->is_new = row->was_deleted = false;
    row->is_created = kind == CHANGE_CREATED;
    row->first_seq = row->seq = seq;
    row->entry = g->entries.size;
    if (kind != CHANGE_DELETED)
        fragment_resource(&g->entries, fragment, stamp);
    row->size = g->entries.size - row->entry;
    if (g->entries.failed)
        return STATUS_MEMORY;
    g->n++;
    return STATUS_OK;
}

static int
compare_seqs(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
compare_keys(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;
    int order = memcmp(&a->key, &b->key, sizeof(a->key));

    return order ? order : compare_seqs(a->seq, b->seq);
}

static int
compare_ids(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;

    return a->id < b->id ? -1 : a->id > b->id;
}

/* Sorts by key, and leaves only the last row of each resource. A resource
 * that was deleted and created again counts as new. */
static void
sort_by_key(struct fold_batch *g)
{
    size_t n = 0;

    if (g->n == 0)
        return;
    qsort(g->rows, g->n, sizeof(*g->rows), compare_keys);
    for (size_t i = 0; i < g->n; i++) {
        struct gathered row = g->rows[i];

        if (n > 0 && !memcmp(&g->rows[n - 1].key, &row.key, sizeof(row.key))) {
            const struct gathered *earlier = &g->rows[--n];

            row.was_deleted |= earlier->was_deleted || earlier->size == 0;
            if (earlier->size > 0)
                row.first_seq = earlier->first_seq;
        }
        g->rows[n++] = row;
    }
    g->n = n;
}

/* Sorts by id: new rows come last, in the order of their creation. */
static void
sort_by_id(struct fold_batch *g)
{
    if (g->n > 0)
        qsort(g->rows, g->n, sizeof(*g->rows), compare_ids);
}

static struct slice
entry_of(const struct fold_batch *g, const struct gathered *row)
{
    return (struct slice){g->entries.data + row->entry, row->size};
}

static void
forget_gathered(struct resources *r)
{
    clear_batch(&r->batch);
    r->gathered = r->state;
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
read_state(struct resources *r, struct state_row *state, struct problem *why)
{
    struct resources_at *at = &state->at;

    return db_find(&r->db, NULL, why, NULL,
                   "SELECT epoch, seq, us, n, bytes, is_whole, digest,"
                   " length(digest)=32, began, whole_at FROM state",
                   DB_VALUES(),
                   DB_INTO(&state->epoch, &at->seq, &at->us, &at->n, &at->bytes,
                           &at->is_whole, &state->digest, &state->has_digest,
                           &at->began, &state->whole_at));
}

/* Ends the walk and its read transaction: it lends nothing afterwards. */
static void
end_walk(struct resources *r)
{
    (void)!db_rows_end(&r->walk);
    r->walked = 0;
}

/* Closes without a change; allowed if not open. */
static void
close_file(struct resources *r)
{
    r->walk = (struct db_rows){NULL};
    db_close(&r->db);
}

/* Opens the file, or makes it, and reads its state. Fails with *is_ours false
 * if it is damaged, or of a newer program; `why` has the reason. */
static enum status
open_file(struct resources *r, struct state_row *state, bool *is_ours,
          struct problem *why)
{
    enum status rc = db_open_kind(&r->db, &resources_kind, r->path, why);

    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    memset(state, 0, sizeof(*state));
    r->wal_pages = 0;
    if (!rc && r->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", r->path));
    if (!rc) {
        sqlite3_db_config(r->db.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                          NULL);
        sqlite3_wal_hook(r->db.handle, on_wal, r);
        rc = read_state(r, state, why);
    }
    if (!rc && r->is_ending)
        db_heed(&r->db, r->is_ending);
    if (rc && r->db.is_damaged)
        *is_ours = false;
    if (rc)
        close_file(r);
    return rc;
}

/* Writing */

/* Changes a row that has its key. */
static enum status
change_row(struct resources *r, const struct gathered *row, struct slice entry,
           struct resources_at *at, struct problem *why)
{
    uint64_t before = 0;
    enum status rc = db_find(&r->db, NULL, why, NULL,
                             "SELECT length(entry) FROM resources WHERE id=?",
                             DB_VALUES(row->id), DB_INTO(&before));

    if (rc)
        return rc;
    if (before == 0) {
        r->db.is_damaged = true;
        return problem(why, STATUS_IO, RESOURCES_FILE " lacks a row");
    }
    at->bytes -= before;
    at->bytes += entry.size;
    if (entry.size)
        return DB_DO(&r->db, NULL, why,
                     "UPDATE resources SET seq=?, entry=? WHERE id=?", row->seq,
                     db_blob(entry), row->id);
    at->n--;
    return DB_DO(&r->db, NULL, why, "DELETE FROM resources WHERE id=?",
                 row->id);
}

static enum status
insert_row(struct resources *r, const struct gathered *row, struct slice entry,
           struct problem *why)
{
    return DB_DO(&r->db, NULL, why,
                 "INSERT INTO resources(id, seq, entry) VALUES(?,?,?)", row->id,
                 row->seq, db_blob(entry));
}

static struct db_value
key_of(const struct gathered *row)
{
    return db_bytes(&row->key, sizeof(row->key));
}

/* Looks for a key, and sets row->id; 0: the file lacks it. */
static enum status
find_key(struct resources *r, struct gathered *row, struct problem *why)
{
    row->id = 0;
    return db_find(&r->db, NULL, why, NULL, "SELECT id FROM keys WHERE key=?",
                   DB_VALUES(key_of(row)), DB_INTO(&row->id));
}

/* Writes a key with that id, unless the file has the key. */
static enum status
add_key(struct resources *r, struct gathered *row, int64_t id,
        struct problem *why)
{
    enum status rc = DB_DO(&r->db, NULL, why,
                           "INSERT OR IGNORE INTO keys(key, id) VALUES(?,?)",
                           key_of(row), id);

    row->is_new = !rc && sqlite3_changes(r->db.handle) > 0;
    if (row->is_new)
        row->id = id;
    return rc;
}

static enum status
delete_key(struct resources *r, const struct gathered *row, struct problem *why)
{
    return DB_DO(&r->db, NULL, why, "DELETE FROM keys WHERE key=?",
                 key_of(row));
}

/* Deletes a resource that was deleted and created again. It gets a new row,
 * behind all others: so the order of rows depends on the entries only, and not
 * on which of them are folded together. */
static enum status
delete_former(struct resources *r, struct gathered *row,
              struct resources_at *at, struct problem *why)
{
    enum status rc = find_key(r, row, why);

    if (!rc && row->id)
        rc = change_row(r, row, (struct slice){NULL, 0}, at, why);
    if (!rc && row->id)
        rc = delete_key(r, row, why);
    row->id = 0;
    return rc;
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
    if (row->was_deleted)
        rc = delete_former(r, row, at, why);
    else if (!row->is_created)
        rc = find_key(r, row, why);
    if (!rc && !row->id)
        rc = add_key(r, row, id, why);
    return !rc && !row->id ? find_key(r, row, why) : rc;
}

/* Writes the keys in the order of keys. New ids follow the order of
 * creation. */
static enum status
write_keys(struct resources *r, struct fold_batch *g, struct resources_at *at,
           struct problem *why)
{
    int64_t last = 0;
    enum status rc =
        db_find(&r->db, NULL, why, NULL, "SELECT max(id) FROM resources",
                DB_VALUES(), DB_INTO(&last));

    sort_by_key(g);
    for (size_t i = 0; !rc && i < g->n; i++) {
        uint64_t nth = g->rows[i].first_seq - r->state.at.seq;

        rc = write_key(r, &g->rows[i], last + (int64_t)nth, at, why);
    }
    return rc;
}

/* Writes the rows in the order of ids. */
static enum status
write_rows(struct resources *r, struct fold_batch *g, struct resources_at *at,
           struct problem *why)
{
    enum status rc = STATUS_OK;

    sort_by_id(g);
    for (size_t i = 0; !rc && i < g->n; i++) {
        const struct gathered *row = &g->rows[i];
        struct slice entry = entry_of(g, row);

        if (row->is_new) {
            at->n++;
            at->bytes += entry.size;
            rc = insert_row(r, row, entry, why);
        } else if (row->id) {
            rc = change_row(r, row, entry, at, why);
        }
    }
    return rc;
}

static enum status
write_state(struct resources *r, const struct state_row *state,
            struct problem *why)
{
    return DB_DO(&r->db, NULL, why,
                 "INSERT OR REPLACE INTO state(id, epoch, seq, us, digest, n,"
                 " bytes, is_whole, began, whole_at)"
                 " VALUES(1,?,?,?,?,?,?,?,?,?)",
                 state->epoch, state->at.seq, state->at.us,
                 state->has_digest ? &state->digest : NULL, state->at.n,
                 state->at.bytes, state->at.is_whole, state->at.began,
                 state->whole_at);
}

/* Writes all gathered changes and the row of `state` in one transaction;
 * updates the counts in state->at. May leave the batch in another order. */
static enum status
write_batch(struct resources *r, struct state_row *state, struct problem *why)
{
    enum status rc = db_begin(&r->db, why);

    if (!rc)
        rc = write_keys(r, &r->batch, &state->at, why);
    if (!rc)
        rc = write_rows(r, &r->batch, &state->at, why);
    if (!rc)
        rc = write_state(r, state, why);
    return db_end(&r->db, rc, why);
}

/* Syncs the directory, for the names of new files. */
static enum status
sync_names(struct resources *r, struct problem *why)
{
    char path[sizeof(r->path)];
    enum status rc;
    int fd;

    snprintf(path, sizeof(path), "%s", r->path);
    *strrchr(path, '/') = '\0';
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return problem_errno(why, "cannot open", path);
    rc = file_sync_dir(fd, why);
    close(fd);
    return rc;
}

/* Makes all commits firm. */
static enum status
sync_file(struct resources *r, struct problem *why)
{
    int result;

    /* A checkpoint cannot be stopped midway, and the next start can do without
     * this one. */
    if (r->is_ending &&
        atomic_load_explicit(r->is_ending, memory_order_relaxed))
        return problem(why, STATUS_STOPPED, "the broker is ending");
    result = sqlite3_wal_checkpoint_v2(r->db.handle, NULL,
                                       SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (result)
        return db_problem(&r->db, result, "make " RESOURCES_FILE " firm", why);
    r->wal_pages = 0;
    return sync_names(r, why);
}

/* Beginning */

/* Deletes the file and begins a new one, behind entry `after` of the epoch. */
static enum status
begin_file(struct resources *r, uint64_t after, struct problem *why)
{
    struct state_row state;
    bool is_ours;
    enum status rc;

    close_file(r);
    rc = db_unlink(r->path, why);
    if (!rc)
        rc = open_file(r, &state, &is_ours, why);
    if (rc)
        return rc;
    memcpy(state.epoch, r->state.epoch, sizeof(state.epoch));
    state.at.seq = after;
    state.at.us = DATETIME_NONE;
    state.at.began = after;
    state.at.is_whole = after == 0;
    r->state = state;
    forget_gathered(r);
    r->kept = 0;
    r->is_same_log = false;
    return write_batch(r, &r->state, why);
}

/* Begins anew at the first entry, because of `reason`. */
static enum status
begin_anew(struct resources *r, const char *reason, struct problem *why)
{
    DIAG(DIAG_WARNING, "state", "the state of a set begins anew",
         diag_text("file", r->path), diag_text("because", reason));
    return begin_file(r, 0, why);
}

enum status
resources_open(struct resources **resources, const char *dir, const char *epoch,
               struct problem *why)
{
    struct resources *r = memory_new(1, sizeof(*r));
    struct problem reason = {""};
    bool is_ours, is_other;
    enum status rc;

    snprintf(r->path, sizeof(r->path), "%s/" RESOURCES_FILE, dir);
    init_batch(&r->batch, GATHER_MAX);
    rc = open_file(r, &r->state, &is_ours, &reason);
    if (rc && is_ours && why)
        *why = reason;
    is_other = !rc && strcmp(r->state.epoch, epoch) != 0;
    if (is_other || (rc && !is_ours)) {
        snprintf(r->state.epoch, sizeof(r->state.epoch), "%s", epoch);
        rc = is_other ? begin_file(r, 0, why) : begin_anew(r, reason.text, why);
    }
    forget_gathered(r);
    if (rc)
        resources_close(r);
    else
        *resources = r;
    return rc;
}

void
resources_close(struct resources *r)
{
    struct problem why = {""};

    if (!r)
        return;
    close_file(r);
    if (resources_is_damaged(r)) {
        DIAG(DIAG_WARNING, "state",
             "the state of a set is damaged, and will begin anew",
             diag_text("file", r->path));
        if (db_unlink(r->path, &why))
            DIAG(DIAG_ERROR, "state", "a damaged state stays",
                 diag_text("error", why.text));
    }
    clear_batch(&r->batch);
    free(r);
}

bool
resources_is_damaged(const struct resources *r)
{
    return r->db.is_damaged;
}

void
resources_heed(struct resources *r, const atomic_bool *is_ending)
{
    r->is_ending = is_ending;
    if (is_ending)
        db_heed(&r->db, is_ending);
}

const struct resources_at *
resources_at(const struct resources *r)
{
    return &r->state.at;
}

enum status
resources_begin(struct resources *r, uint64_t after, struct problem *why)
{
    end_walk(r);
    return begin_file(r, after, why);
}

/* Folding */

/* True if the log is the one that was folded. A copy of an older log may have
 * continued differently since: d(seq) shows it. */
static bool
is_same_log(struct resources *r, const struct batch *batch)
{
    struct digest digest;

    if (r->is_same_log || !r->state.has_digest)
        return true;
    digest = batch_digest(batch, r->state.at.seq);
    r->is_same_log = !memcmp(&digest, &r->state.digest, sizeof(digest));
    return r->is_same_log;
}

static enum status
gather_batch(struct resources *r, const struct batch *batch, uint64_t last)
{
    enum status rc = STATUS_OK;

    for (uint64_t seq = r->gathered.at.seq + 1; !rc && seq <= last; seq++) {
        const struct batch_entry *e = &batch->entries[seq - batch->first];

        rc = add_to_batch(&r->batch, batch_slice(batch, seq - 1, seq), e->stamp,
                          seq);
    }
    return rc;
}

enum status
resources_fold(struct resources *r, const struct batch *batch, uint64_t last,
               struct problem *why)
{
    enum status rc;

    end_walk(r);
    if (!is_same_log(r, batch)) {
        rc = begin_anew(r, "the log is not the one that it was folded from",
                        why);
        return rc ? rc : STATUS_AGAIN;
    }
    rc = gather_batch(r, batch, last);
    if (rc) {
        forget_gathered(r);
        return problem(why, rc, "no memory to fold the entries");
    }
    r->gathered.at.seq = last;
    r->gathered.at.us = batch_time(batch, last);
    r->gathered.digest = batch_digest(batch, last);
    r->gathered.has_digest = true;
    return STATUS_OK;
}

bool
resources_is_full(const struct resources *r)
{
    return r->batch.n >= GATHER_ENTRIES ||
           r->batch.entries.size >= GATHER_BYTES;
}

/* Makes the state whole if everything that was missing is folded. */
static void
look_if_whole(struct state_row *state)
{
    if (state->whole_at == 0 || state->at.seq < state->whole_at)
        return;
    state->at.is_whole = true;
    state->whole_at = 0;
}

enum status
resources_commit(struct resources *r, struct problem *why)
{
    struct problem reason = {""};
    enum status rc;

    end_walk(r);
    if (r->batch.n == 0)
        return STATUS_OK;
    look_if_whole(&r->gathered);
    rc = write_batch(r, &r->gathered, &reason);
    if (!rc) {
        r->state = r->gathered;
        r->is_same_log = true;
    }
    forget_gathered(r);
    sqlite3_db_release_memory(r->db.handle);
    if (resources_is_damaged(r)) { /* or a reader has found damage */
        rc = begin_anew(r, rc ? reason.text : "it is damaged", why);
        return rc ? rc : STATUS_AGAIN;
    }
    if (rc && why)
        *why = reason;
    if (!rc && r->wal_pages >= WAL_PAGES)
        rc = resources_keep(r, why);
    return rc;
}

uint64_t
resources_kept(const struct resources *r)
{
    return r->kept;
}

enum status
resources_keep(struct resources *r, struct problem *why)
{
    enum status rc;

    end_walk(r);
    if (r->kept == r->state.at.seq)
        return STATUS_OK;
    rc = sync_file(r, why);
    if (!rc)
        r->kept = r->state.at.seq;
    return rc;
}

enum status
resources_fill(struct resources *r, uint64_t seq, struct slice entry,
               struct problem *why)
{
    struct gathered row = {.id = (int64_t)r->state.at.n + 1, .seq = seq};
    enum status rc = STATUS_OK;

    if (sqlite3_get_autocommit(r->db.handle))
        rc = db_begin(&r->db, why);
    resource_key(&row.key, fragment_loc(entry));
    if (!rc)
        rc = add_key(r, &row, row.id, why);
    if (!rc && !row.is_new)
        rc = problem(why, STATUS_DIFFERENT, "it names a resource twice");
    if (!rc)
        rc = insert_row(r, &row, entry, why);
    if (rc)
        return rc;
    r->state.at.n++;
    r->state.at.bytes += entry.size;
    return STATUS_OK;
}

enum status
resources_fill_end(struct resources *r, uint64_t seq, int64_t us,
                   struct problem *why)
{
    enum status rc = STATUS_OK;

    if (sqlite3_get_autocommit(r->db.handle)) /* no resource was added */
        rc = db_begin(&r->db, why);
    r->state.at.seq = seq;
    r->state.at.us = us;
    r->state.at.is_whole = true;
    r->state.at.began = 0;
    r->state.whole_at = 0;
    r->state.has_digest = false;
    if (!rc)
        rc = write_state(r, &r->state, why);
    rc = db_end(&r->db, rc, why);
    forget_gathered(r);
    return rc ? rc : resources_keep(r, why);
}

enum status
resources_heal(struct resources *r, uint64_t began, uint64_t seq,
               struct problem *why)
{
    struct state_row healed = r->state;
    enum status rc;

    end_walk(r);
    if (r->state.at.is_whole || r->state.at.began != began)
        return STATUS_OK;
    healed.whole_at = seq;
    look_if_whole(&healed);
    forget_gathered(r);
    rc = write_batch(r, &healed, why);
    if (rc)
        return rc;
    r->gathered = r->state = healed;
    r->kept = 0; /* the seq may be the same, but this state is not on the
                    disk */
    return resources_keep(r, why);
}

/* Reading */

enum status
resources_next(struct resources *r, int64_t id, struct resources_entry *entry,
               struct problem *why)
{
    /* A step behind the last one continues the query. */
    if (id == 0 || r->walked != id) {
        end_walk(r);
        r->walk = DB_SELECT(
            &r->db, NULL, why,
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

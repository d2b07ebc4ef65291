/*
 * Five million resources have 1.5 GB of rows, and a change may concern any of
 * them. So the writes are sorted (fold_batch.h), and the cache only needs the
 * upper pages of both trees: a page of rows is read, changed and written before
 * memory is short.
 *
 * PRAGMA synchronous=NORMAL: a commit is an append to the WAL without an fsync;
 * a checkpoint syncs the WAL, then writes the file, then syncs that. Nothing
 * else syncs, not even a close, which happens whenever another set has its
 * turn.
 */
#include "broker/state/resources_db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/diag.h"

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

static const char *const settings[] = {
    "PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=0",
    "PRAGMA cache_size=-4096", /* KiB */
};

static const char *const sql[RESOURCES_DB_STATEMENTS] = {
    [F_BEGIN] = "BEGIN IMMEDIATE",
    [F_COMMIT] = "COMMIT",
    [F_ID] = "SELECT id FROM keys WHERE key=?",
    [F_SIZE] = "SELECT length(entry) FROM resources WHERE id=?",
    [F_LAST] = "SELECT max(id) FROM resources",
    [F_UPDATE] = "UPDATE resources SET seq=?2, entry=?3 WHERE id=?1",
    [F_INSERT] = "INSERT INTO resources(id, seq, entry) VALUES(?1,?2,?3)",
    [F_DELETE] = "DELETE FROM resources WHERE id=?",
    [F_INSERT_KEY] = "INSERT INTO keys(key, id) VALUES(?1,?2)",
    [F_DELETE_KEY] = "DELETE FROM keys WHERE key=?1",
    [F_STATE] = ("INSERT OR REPLACE INTO state(id, epoch, seq, us, digest, n,"
                 " bytes, is_whole, began, whole_at)"
                 " VALUES(1,?,?,?,?,?,?,?,?,?)"),
    [F_FIND] = ("SELECT seq, entry FROM keys, resources"
                " WHERE key=? AND resources.id=keys.id"),
    [F_WALK] = "SELECT id, seq, entry FROM resources WHERE id>? ORDER BY id",
};

#define WHAT "write " RESOURCES_FILE

static void
bind_bytes(sqlite3_stmt *q, int n, const void *data, size_t size)
{
    sqlite3_bind_blob64(q, n, data, size, SQLITE_STATIC);
}

/* Opening and closing */

static int
on_wal(void *user, sqlite3 *handle, const char *name, int pages)
{
    struct resources_db *f = user;

    (void)handle;
    (void)name;
    f->wal_pages = pages;
    return SQLITE_OK;
}

static enum status
read_state(struct resources_db *f, struct resources_db_at *state,
           struct problem *why)
{
    sqlite3_stmt *q = NULL;
    struct slice digest;
    bool row = false;
    enum status rc =
        db_prepare(&f->db, &q,
                   "SELECT epoch, seq, us, n, bytes, is_whole, digest,"
                   " began, whole_at FROM state",
                   why);

    if (!rc)
        rc = db_step(&f->db, q, &row, "read " RESOURCES_FILE, why);
    if (!rc && row) {
        snprintf(state->epoch, sizeof(state->epoch), "%.*s",
                 SLICE_ARG(db_column(q, 0)));
        state->at.seq = (uint64_t)sqlite3_column_int64(q, 1);
        state->at.us = sqlite3_column_int64(q, 2);
        state->at.n = (uint64_t)sqlite3_column_int64(q, 3);
        state->at.bytes = (uint64_t)sqlite3_column_int64(q, 4);
        state->at.is_whole = sqlite3_column_int(q, 5) != 0;
        digest = db_column(q, 6);
        state->has_digest = digest.size == DIGEST_SIZE;
        if (state->has_digest)
            memcpy(state->digest.bytes, digest.data, DIGEST_SIZE);
        state->at.began = (uint64_t)sqlite3_column_int64(q, 7);
        state->whole_at = (uint64_t)sqlite3_column_int64(q, 8);
    }
    sqlite3_finalize(q);
    return rc;
}

static enum status
prepare_database(struct resources_db *f, struct resources_db_at *state,
                 bool *is_ours, struct problem *why)
{
    enum status rc =
        db_migrate(&f->db, steps, sizeof(steps) / sizeof(steps[0]), why);

    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    for (size_t i = 0; !rc && i < sizeof(settings) / sizeof(settings[0]); i++)
        rc = db_exec(&f->db, settings[i], why);
    if (rc)
        return rc;
    sqlite3_db_config(f->db.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_wal_hook(f->db.handle, on_wal, f);
    for (int i = 0; !rc && i < RESOURCES_DB_STATEMENTS; i++)
        rc = db_prepare(&f->db, &f->statements[i], sql[i], why);
    if (!rc)
        rc = read_state(f, state, why);
    /* Our own statements are right, so the tables are missing. */
    if (rc && sqlite3_errcode(f->db.handle) == SQLITE_ERROR)
        *is_ours = false;
    return rc;
}

enum status
resources_db_open(struct resources_db *f, struct resources_db_at *state,
                  bool *is_ours, struct problem *why)
{
    enum status rc = db_open(&f->db, f->path, DB_SMALL, why);

    *is_ours = true;
    memset(state, 0, sizeof(*state));
    memset(f->statements, 0, sizeof(f->statements));
    f->wal_pages = 0;
    if (!rc && f->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", f->path));
    if (!rc)
        rc = prepare_database(f, state, is_ours, why);
    if (!rc)
        resources_db_heed(f, f->is_ending);
    if (rc && f->db.is_damaged)
        *is_ours = false;
    if (rc)
        resources_db_close(f);
    return rc;
}

void
resources_db_heed(struct resources_db *f, const atomic_bool *is_ending)
{
    f->is_ending = is_ending;
    if (is_ending)
        db_heed(&f->db, is_ending);
}

void
resources_db_close(struct resources_db *f)
{
    for (int i = 0; i < RESOURCES_DB_STATEMENTS; i++)
        sqlite3_finalize(f->statements[i]);
    memset(f->statements, 0, sizeof(f->statements));
    if (f->db.handle)
        db_close(&f->db);
}

enum status
resources_db_unlink(struct resources_db *f, struct problem *why)
{
    /* The file itself last: without it the others mean nothing, but the WAL of
     * another file would damage it. */
    static const char *const suffixes[] = {"-wal", "-shm", ""};
    char path[sizeof(f->path) + 8];

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
        if (unlink(path) && errno != ENOENT) {
            problem_errno(why, "cannot remove", path);
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

void
resources_db_settle(struct resources_db *f)
{
    sqlite3_reset(f->statements[F_FIND]);
    sqlite3_reset(f->statements[F_WALK]);
}

/* Writing */

/* Reads the first column of a row; 0: there is no row. */
static enum status
look_up(struct resources_db *f, sqlite3_stmt *q, int64_t *number,
        struct problem *why)
{
    bool row = false;
    enum status rc = db_step(&f->db, q, &row, "read " RESOURCES_FILE, why);

    *number = row ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return rc;
}

static enum status
find_ids(struct resources_db *f, struct fold_batch *g, struct problem *why)
{
    sqlite3_stmt *q = f->statements[F_ID];
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < g->n; i++) {
        bind_bytes(q, 1, &g->rows[i].key, sizeof(g->rows[i].key));
        rc = look_up(f, q, &g->rows[i].id, why);
    }
    return rc;
}

static enum status
put_row(struct resources_db *f, enum resources_db_statement how,
        const struct gathered *row, struct slice entry, struct problem *why)
{
    sqlite3_stmt *q = f->statements[how];

    sqlite3_bind_int64(q, 1, row->id);
    sqlite3_bind_int64(q, 2, (sqlite3_int64)row->seq);
    bind_bytes(q, 3, entry.data, entry.size);
    return db_run(&f->db, q, WHAT, why);
}

/* Changes a row that has its key. */
static enum status
change_row(struct resources_db *f, const struct gathered *row,
           struct slice entry, struct resources_at *at, struct problem *why)
{
    sqlite3_stmt *q = f->statements[F_SIZE];
    int64_t before;
    enum status rc;

    sqlite3_bind_int64(q, 1, row->id);
    rc = look_up(f, q, &before, why);
    if (rc)
        return rc;
    if (before == 0) {
        f->db.is_damaged = true;
        return problem(why, STATUS_IO, RESOURCES_FILE " lacks a row");
    }
    at->bytes -= (uint64_t)before;
    at->bytes += entry.size;
    if (entry.size)
        return put_row(f, F_UPDATE, row, entry, why);
    at->n--;
    q = f->statements[F_DELETE];
    sqlite3_bind_int64(q, 1, row->id);
    return db_run(&f->db, q, WHAT, why);
}

static enum status
add_row(struct resources_db *f, struct gathered *row, struct slice entry,
        int64_t *last, struct resources_at *at, struct problem *why)
{
    if (entry.size == 0)
        return STATUS_OK; /* deleted: needs no row */
    at->n++;
    at->bytes += entry.size;
    row->id = ++*last;
    row->is_new = true;
    return put_row(f, F_INSERT, row, entry, why);
}

/* Writes the rows in the order of ids. */
static enum status
write_rows(struct resources_db *f, struct fold_batch *g,
           struct resources_at *at, struct problem *why)
{
    int64_t last;
    enum status rc = look_up(f, f->statements[F_LAST], &last, why);

    for (size_t i = 0; !rc && i < g->n; i++) {
        struct gathered *row = &g->rows[i];
        struct slice entry = fold_batch_entry(g, row);

        rc = row->id ? change_row(f, row, entry, at, why)
                     : add_row(f, row, entry, &last, at, why);
    }
    return rc;
}

/* Writes the keys in the order of keys. */
static enum status
write_keys(struct resources_db *f, struct fold_batch *g, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < g->n; i++) {
        const struct gathered *row = &g->rows[i];
        bool is_gone = row->id && row->size == 0;
        sqlite3_stmt *q = f->statements[is_gone ? F_DELETE_KEY : F_INSERT_KEY];

        if (!row->is_new && !is_gone)
            continue;
        bind_bytes(q, 1, &row->key, sizeof(row->key));
        if (!is_gone)
            sqlite3_bind_int64(q, 2, row->id);
        rc = db_run(&f->db, q, WHAT, why);
    }
    return rc;
}

static enum status
write_gathered(struct resources_db *f, struct fold_batch *g,
               struct resources_at *at, struct problem *why)
{
    enum status rc;

    fold_batch_by_key(g);
    rc = find_ids(f, g, why);
    if (rc)
        return rc;
    fold_batch_by_id(g);
    rc = write_rows(f, g, at, why);
    if (rc)
        return rc;
    fold_batch_by_key(g);
    return write_keys(f, g, why);
}

static enum status
write_state(struct resources_db *f, const struct resources_db_at *state,
            struct problem *why)
{
    sqlite3_stmt *q = f->statements[F_STATE];

    sqlite3_bind_text(q, 1, state->epoch, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, (sqlite3_int64)state->at.seq);
    sqlite3_bind_int64(q, 3, state->at.us);
    if (state->has_digest)
        bind_bytes(q, 4, state->digest.bytes, DIGEST_SIZE);
    else
        sqlite3_bind_null(q, 4);
    sqlite3_bind_int64(q, 5, (sqlite3_int64)state->at.n);
    sqlite3_bind_int64(q, 6, (sqlite3_int64)state->at.bytes);
    sqlite3_bind_int(q, 7, state->at.is_whole);
    sqlite3_bind_int64(q, 8, (sqlite3_int64)state->at.began);
    sqlite3_bind_int64(q, 9, (sqlite3_int64)state->whole_at);
    return db_run(&f->db, q, WHAT, why);
}

enum status
resources_db_write(struct resources_db *f, struct fold_batch *g,
                   struct resources_db_at *state, struct problem *why)
{
    enum status rc = db_run(&f->db, f->statements[F_BEGIN], WHAT, why);

    if (!rc)
        rc = write_gathered(f, g, &state->at, why);
    if (!rc)
        rc = write_state(f, state, why);
    if (!rc)
        rc = db_run(&f->db, f->statements[F_COMMIT], WHAT, why);
    if (rc && !sqlite3_get_autocommit(f->db.handle))
        sqlite3_exec(f->db.handle, "ROLLBACK", NULL, NULL, NULL);
    for (int i = 0; i < RESOURCES_DB_STATEMENTS; i++)
        sqlite3_clear_bindings(f->statements[i]);
    return rc;
}

/* Syncs the directory, for the names of new files. */
static enum status
sync_names(struct resources_db *f, struct problem *why)
{
    char path[sizeof(f->path)];
    enum status rc;
    int fd;

    snprintf(path, sizeof(path), "%s", f->path);
    *strrchr(path, '/') = '\0';
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        problem_errno(why, "cannot open", path);
        return STATUS_IO;
    }
    rc = file_sync_dir(fd, why);
    close(fd);
    return rc;
}

enum status
resources_db_sync(struct resources_db *f, struct problem *why)
{
    int result;

    /* A checkpoint cannot be stopped midway, and the next start can do without
     * this one. */
    if (f->is_ending &&
        atomic_load_explicit(f->is_ending, memory_order_relaxed))
        return problem(why, STATUS_STOPPED, "the broker is ending");
    result = sqlite3_wal_checkpoint_v2(f->db.handle, NULL,
                                       SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (result)
        return db_problem(&f->db, result, "make " RESOURCES_FILE " firm", why);
    f->wal_pages = 0;
    return sync_names(f, why);
}

#include "broker/store/checkpoint.h"

#include <stdio.h>

#include "broker/base/diag.h"
#include "broker/base/metrics.h"

/* As db_open makes them. */
#define PAGE_BYTES 16384

/* sqlite.org/fileformat2.html#walformat: its header, and that of a page. */
#define WAL_HEADER_BYTES   32
#define FRAME_HEADER_BYTES 24

/* WAL bytes after which a checkpoint begins; and after which the writer copies
 * them itself and waits for the thread and for readers, rather than let the WAL
 * grow on: on a loaded machine commits may come faster than the thread copies
 * them. */
#define CHECKPOINT_BYTES 4194304
#define WAL_LONG_BYTES   (16 * (int64_t)CHECKPOINT_BYTES)
#define WAL_WAIT_MS      1000

/* Otherwise, as db_open sets it. */
#define BUSY_MS 5000

/* Reports a failure; a busy database is none. */
static void
report_failure(struct db *db, int result)
{
    struct problem why = {""};
    int kind = result & 0xff;

    if (kind == SQLITE_OK || kind == SQLITE_BUSY || kind == SQLITE_LOCKED)
        return;
    if (db_problem(db, result, "copy the WAL", &why))
        DIAG(DIAG_ERROR, "log",
             "a checkpoint has failed, and the WAL grows until one succeeds",
             diag_text("error", why.text));
}

/* SQLite, after a commit: so many pages are in the log. */
static int
on_wal(void *user, sqlite3 *handle, const char *name, int pages)
{
    struct checkpoint *c = user;

    (void)handle;
    (void)name;
    c->wal_bytes = (int64_t)pages * PAGE_BYTES;
    metrics_set(METRIC_WAL, c->wal_bytes);
    /* Not while a RESTART is due: two checkpoints would be in each other's
     * way. */
    if (c->wal_bytes >= CHECKPOINT_BYTES &&
        !atomic_load_explicit(&c->is_restart_due, memory_order_relaxed))
        thread_wake(&c->thread);
    return SQLITE_OK;
}

static void
run_checkpoints(struct thread *t)
{
    struct checkpoint *c = t->user;

    while (thread_wait(t, -1)) {
        int result;

        pthread_mutex_lock(&c->copying);
        result = sqlite3_wal_checkpoint_v2(
            c->db.handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        pthread_mutex_unlock(&c->copying);
        report_failure(&c->db, result);
        metrics_add(METRIC_CHECKPOINTS, result == SQLITE_OK);
        atomic_store_explicit(&c->is_restart_due, true, memory_order_relaxed);
    }
}

enum status
checkpoint_start(struct checkpoint *c, struct db *writer, const char *path,
                 struct problem *why)
{
    int result = sqlite3_wal_checkpoint_v2(
        writer->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    char limit[64];
    enum status rc;

    if (result != SQLITE_OK)
        return db_problem(writer, result, "recover tidings.db", why);
    c->writer = writer;
    atomic_init(&c->is_restart_due, false);
    pthread_mutex_init(&c->copying, NULL);
    snprintf(limit, sizeof(limit), "PRAGMA journal_size_limit=%lld",
             (long long)WAL_LONG_BYTES);
    rc = db_exec(writer, limit, why);
    if (!rc)
        rc = db_open(&c->db, path, DB_WRITER, why);
    if (!rc)
        rc = thread_start(&c->thread, "checkpoint", run_checkpoints, c, why);
    if (!rc)
        sqlite3_wal_hook(writer->handle, on_wal, c);
    return rc;
}

void
checkpoint_stop(struct checkpoint *c)
{
    thread_stop(&c->thread);
    db_close(&c->db);
}

void
checkpoint_complete(struct checkpoint *c)
{
    bool is_long = c->wal_bytes >= WAL_LONG_BYTES;
    int result;

    if (!atomic_exchange_explicit(&c->is_restart_due, false,
                                  memory_order_relaxed) &&
        !is_long)
        return;
    /* Only pages written since the PASSIVE one are left to copy. A reader that
     * still looks at old pages makes it fail; the next checkpoint tries again,
     * and waits for the reader when the WAL has become long. */
    if (is_long)
        pthread_mutex_lock(&c->copying);
    sqlite3_busy_timeout(c->writer->handle, is_long ? WAL_WAIT_MS : 0);
    result = sqlite3_wal_checkpoint_v2(c->writer->handle, NULL,
                                       SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    if (is_long)
        pthread_mutex_unlock(&c->copying);
    report_failure(c->writer, result);
    sqlite3_busy_timeout(c->writer->handle, BUSY_MS);
}

void
checkpoint_trim(struct checkpoint *c)
{
    sqlite3_int64 kept =
        WAL_HEADER_BYTES +
        c->wal_bytes / PAGE_BYTES * (PAGE_BYTES + FRAME_HEADER_BYTES);
    sqlite3_int64 size;
    sqlite3_file *wal = NULL;

    /* No other thread writes to the WAL, and none reads behind the kept
     * commits. After a RESTART they take less than that. */
    if (!sqlite3_file_control(c->writer->handle, NULL,
                              SQLITE_FCNTL_JOURNAL_POINTER, &wal) &&
        wal && wal->pMethods && !wal->pMethods->xFileSize(wal, &size) &&
        size > kept)
        wal->pMethods->xTruncate(wal, kept);
}

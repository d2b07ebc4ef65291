#include "broker/store/checkpoint.h"

#include "broker/base/diag.h"
#include "broker/base/metrics.h"

/* sqlite.org/fileformat2.html#walformat: its header, and that of a page. */
#define WAL_HEADER_BYTES   32
#define FRAME_HEADER_BYTES 24

/* The thread copies again what was written while it copied, so often at most.
 */
#define ROUNDS 4

/* How long the writer waits for readers of a WAL that has become too long. */
#define WAL_WAIT_MS 1000

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
    c->wal_bytes = (int64_t)pages * c->page_bytes;
    store_relaxed(&c->n_pages, pages);
    metrics_set(METRIC_WAL, c->wal_bytes);
    /* Not while a RESTART is due: two checkpoints would be in each other's
     * way. */
    if (c->wal_bytes >= CHECKPOINT_BYTES && !load_relaxed(&c->is_restart_due))
        thread_wake(&c->thread);
    return SQLITE_OK;
}

/* Copies all that no reader needs in the WAL. While it copies, commits add to
 * the WAL: it copies that, too, until the writer's part is short. */
static void
run_checkpoints(struct thread *t)
{
    struct checkpoint *c = t->user;

    while (thread_wait(t, -1)) {
        int n_copied = 0, n_left = 0, result = SQLITE_OK;

        for (int i = 0; i < ROUNDS && result == SQLITE_OK; i++) {
            pthread_mutex_lock(&c->copying);
            result = sqlite3_wal_checkpoint_v2(
                c->db.handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, &n_copied);
            pthread_mutex_unlock(&c->copying);
            n_left = load_relaxed(&c->n_pages) - n_copied;
            if ((int64_t)n_left * c->page_bytes < CHECKPOINT_BYTES)
                break;
        }
        report_failure(&c->db, result);
        metrics_add(METRIC_CHECKPOINTS, result == SQLITE_OK);
        store_relaxed(&c->is_restart_due, true);
    }
}

enum status
checkpoint_start(struct checkpoint *c, struct db *writer, const char *path,
                 struct problem *why)
{
    int result = sqlite3_wal_checkpoint_v2(
        writer->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int64_t page_bytes = 0;
    char limit[64];
    enum status rc;

    if (result != SQLITE_OK)
        return db_problem(writer, result, "recover tidings.db", why);
    c->writer = writer;
    pthread_mutex_init(&c->copying, NULL);
    rc = db_number(writer, "PRAGMA page_size", &page_bytes, why);
    c->page_bytes = (int)page_bytes;
    /* A commit may be larger than any bound: its room is given back. */
    snprintf(limit, sizeof(limit), "PRAGMA journal_size_limit=%lld",
             (long long)(CHECKPOINT_BYTES + CHECKPOINT_SLACK_BYTES));
    if (!rc)
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
    bool is_long = c->wal_bytes >= CHECKPOINT_BYTES + CHECKPOINT_SLACK_BYTES;
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
        c->wal_bytes / c->page_bytes * (c->page_bytes + FRAME_HEADER_BYTES);
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

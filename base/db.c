#include "base/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a reader or the writer waits for a lock that SQLite holds only for
 * moments (recovery, the start of a WAL); nothing else ever waits. */
#define BUSY_MS 5000

/* Operations of SQLite's machine between two looks at is_ending: some ten
 * microseconds, at no measurable cost. */
#define HEED_OPERATIONS 1000

enum status
db_problem(struct db *db, int result, const char *what, struct problem *why)
{
    int error = errno; /* for a COMMIT sqlite3_system_errno does not have it */
    int last = sqlite3_extended_errcode(db->handle); /* NULL: no memory */
    const char *reason = last == result || (last & 0xff) == result
                             ? sqlite3_errmsg(db->handle)
                             : sqlite3_errstr(result);

    /* SQLite detects a full disk, but not an exceeded quota: it reports that as
     * a failed write. */
    if (result == SQLITE_IOERR_WRITE && error == EDQUOT) {
        problem_set(why, "cannot %s: the disk quota is used up", what);
        return STATUS_BUSY;
    }
    problem_set(why, "cannot %s: %s", what, reason);
    if (result == SQLITE_IOERR_NOMEM)
        return STATUS_MEMORY;
    switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        db->is_damaged = true;
        return STATUS_IO;
    case SQLITE_FULL:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return STATUS_BUSY;
    case SQLITE_NOMEM:
        return STATUS_MEMORY;
    case SQLITE_INTERRUPT:
        return STATUS_STOPPED;
    default:
        return STATUS_IO;
    }
}

/* The same for a statement; the beginning of its text describes it. */
static enum status
sql_problem(struct db *db, int result, const char *sql, struct problem *why)
{
    char what[PROBLEM_QUOTE_MAX + 16];

    snprintf(what, sizeof(what), "run \"%s\"",
             problem_quote(slice_of(sql)).text);
    return db_problem(db, result, what, why);
}

enum status
db_exec(struct db *db, const char *sql, struct problem *why)
{
    int result = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

    return result ? sql_problem(db, result, sql, why) : STATUS_OK;
}

enum status
db_prepare(struct db *db, sqlite3_stmt **statement, const char *sql,
           struct problem *why)
{
    int result = sqlite3_prepare_v3(db->handle, sql, -1,
                                    SQLITE_PREPARE_PERSISTENT, statement, NULL);

    return result ? sql_problem(db, result, sql, why) : STATUS_OK;
}

enum status
db_step(struct db *db, sqlite3_stmt *statement, bool *row, const char *what,
        struct problem *why)
{
    int result = sqlite3_step(statement);

    *row = result == SQLITE_ROW;
    if (result == SQLITE_ROW || result == SQLITE_DONE)
        return STATUS_OK;
    return db_problem(db, result, what, why);
}

enum status
db_run(struct db *db, sqlite3_stmt *statement, const char *what,
       struct problem *why)
{
    bool row;
    enum status rc = db_step(db, statement, &row, what, why);

    if (!rc && row)
        rc = problem(why, STATUS_IO, "cannot %s: a row came back", what);
    sqlite3_reset(statement); /* repeats the error of the step */
    return rc;
}

struct slice
db_column(sqlite3_stmt *statement, int column)
{
    /* In this order: the size is that of the last requested type. */
    const char *data = sqlite3_column_blob(statement, column);

    return (struct slice){data,
                          (size_t)sqlite3_column_bytes(statement, column)};
}

/* Copies the first column of the only row of `sql`, cut to `size`. */
static enum status
ask(struct db *db, const char *sql, char *answer, size_t size,
    struct problem *why)
{
    sqlite3_stmt *statement = NULL;
    bool row = false;
    enum status rc = db_prepare(db, &statement, sql, why);

    answer[0] = '\0';
    if (!rc)
        rc = db_step(db, statement, &row, sql, why);
    if (!rc && row)
        snprintf(answer, size, "%.*s", SLICE_ARG(db_column(statement, 0)));
    sqlite3_finalize(statement);
    return rc;
}

/*
 * WAL with synchronous=FULL: a commit is one append and one fsync, and
 * acknowledged changes survive a crash (R-149). The log calls for checkpoints.
 * Pages of 16 KiB suit rows that are batches. Small rows that change one by one
 * need small pages, because a commit writes every touched page whole.
 */
static enum status
settle_writer(struct db *db, enum db_mode mode_wanted, struct problem *why)
{
    bool is_small = mode_wanted == DB_SMALL;
    const char *const before[] = {
        /* These two only have effect while the file is empty. */
        is_small ? "PRAGMA page_size=4096" : "PRAGMA page_size=16384",
        "PRAGMA auto_vacuum=NONE",
        "PRAGMA secure_delete=OFF",
    };
    const char *const after[] = {
        "PRAGMA synchronous=FULL",
        is_small ? "PRAGMA wal_autocheckpoint=1000"
                 : "PRAGMA wal_autocheckpoint=0",
    };
    char mode[16];
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < sizeof(before) / sizeof(before[0]); i++)
        rc = db_exec(db, before[i], why);
    if (!rc)
        rc = ask(db, "PRAGMA journal_mode=WAL", mode, sizeof(mode), why);
    for (size_t i = 0; !rc && i < sizeof(after) / sizeof(after[0]); i++)
        rc = db_exec(db, after[i], why);
    return rc;
}

/* Checks that SQLite has set WAL mode: if SQLite cannot, it only returns
 * another mode. Without WAL readers and the writer would block each other. */
static enum status
check_wal(struct db *db, const char *path, struct problem *why)
{
    char mode[16];
    enum status rc = ask(db, "PRAGMA journal_mode", mode, sizeof(mode), why);

    if (!rc && strcmp(mode, "wal") != 0)
        rc = problem(why, STATUS_IO, "%s: its journal mode is %s, not wal",
                     path, mode);
    return rc;
}

/* "file:PATH?immutable=1": the name by which SQLite reads an immutable file. */
static void
immutable_name(const char *path, char *name, size_t size)
{
    size_t n = (size_t)snprintf(name, size, "file:");

    for (; *path && n + sizeof("%00?immutable=1") < size; path++)
        n += (size_t)snprintf(name + n, size - n,
                              strchr("%?#", *path) ? "%%%02X" : "%c", *path);
    snprintf(name + n, size - n, "?immutable=1");
}

/*
 * A read-only connection also makes -wal and -shm if they are missing, and
 * leaves them behind. So a database without a WAL is opened as immutable. One
 * with a WAL, which has the latest commits after a crash, is opened without
 * locks, and with the index of the WAL in memory.
 */
static int
open_for_a_look(struct db *db, const char *path)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY;
    char name[3 * 4200 + 32];
    int result;

    snprintf(name, sizeof(name), "%s-wal", path);
    if (access(name, F_OK)) {
        immutable_name(path, name, sizeof(name));
        return sqlite3_open_v2(name, &db->handle, flags | SQLITE_OPEN_URI,
                               NULL);
    }
    result = sqlite3_open_v2(path, &db->handle, flags, "unix-none");
    if (!result)
        result = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                                   1, NULL);
    if (!result)
        result = sqlite3_exec(db->handle, "PRAGMA locking_mode=EXCLUSIVE", NULL,
                              NULL, NULL);
    return result;
}

/* Removes the permissions of other users from a database, such as a restored
 * copy. SQLite gives its WAL the same mode. */
static void
make_private(struct db *db, const char *path)
{
    struct stat st;

    if (!stat(path, &st) && (st.st_mode & (S_IRWXG | S_IRWXO)) &&
        chmod(path, S_IRUSR | S_IWUSR))
        db->is_exposed = true;
}

static int
open_handle(struct db *db, const char *path, enum db_mode mode)
{
    int flags = mode == DB_READER ? SQLITE_OPEN_READONLY
                                  : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

    if (mode == DB_LOOK)
        return open_for_a_look(db, path);
    if (mode != DB_READER)
        make_private(db, path);
    return sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_NOMUTEX | flags,
                           NULL);
}

enum status
db_open(struct db *db, const char *path, enum db_mode mode, struct problem *why)
{
    char what[600];
    enum status rc = STATUS_OK;
    int result;

    db->handle = NULL;
    db->is_damaged = false;
    db->is_exposed = false;
    snprintf(what, sizeof(what), "open %s", path);
    result = open_handle(db, path, mode);
    if (result) {
        rc = db_problem(db, result, what, why);
        goto out;
    }
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, BUSY_MS);

    if (mode == DB_WRITER || mode == DB_SMALL)
        rc = settle_writer(db, mode, why);
    if (!rc && mode != DB_LOOK)
        rc = check_wal(db, path, why);

out:
    if (rc)
        db_close(db);
    return rc;
}

void
db_close(struct db *db)
{
    /* A statement that was not finalised keeps the file open, but does no other
     * harm: the second version of close never fails. */
    sqlite3_close_v2(db->handle);
    db->handle = NULL;
}

static int
look_at_end(void *user)
{
    const atomic_bool *is_ending = user;

    return atomic_load_explicit(is_ending, memory_order_relaxed);
}

void
db_heed(struct db *db, const atomic_bool *is_ending)
{
    sqlite3_progress_handler(db->handle, HEED_OPERATIONS, look_at_end,
                             (void *)(uintptr_t)is_ending);
}

static enum status
read_version(struct db *db, int n_steps, long *version, struct problem *why)
{
    char text[32];
    enum status rc = ask(db, "PRAGMA user_version", text, sizeof(text), why);

    if (rc)
        return rc;
    *version = strtol(text, NULL, 10);
    if (*version < 0 || *version > n_steps)
        return problem(why, STATUS_INVALID,
                       "the database is of version %ld, and this program "
                       "knows versions up to %d",
                       *version, n_steps);
    return STATUS_OK;
}

enum status
db_check_version(struct db *db, int n_steps, struct problem *why)
{
    long version;

    return read_version(db, n_steps, &version, why);
}

enum status
db_check(const char *path, int n_steps, struct problem *why)
{
    struct db db = {NULL};
    struct stat st;
    enum status rc;

    if (stat(path, &st)) {
        if (errno == ENOENT)
            return STATUS_OK;
        problem_errno(why, "cannot open", path);
        return STATUS_IO;
    }
    if (st.st_size == 0)
        return STATUS_OK;
    rc = db_open(&db, path, DB_LOOK, why);
    if (!rc)
        rc = db_check_version(&db, n_steps, why);
    db_close(&db);
    return rc == STATUS_INVALID ? STATUS_IO : rc;
}

/* Runs the missing steps in a transaction. */
static enum status
migrate(struct db *db, const char *const *steps, int n_steps,
        struct problem *why)
{
    char text[64];
    long version;
    enum status rc = read_version(db, n_steps, &version, why);

    for (long i = version; !rc && i < n_steps; i++)
        rc = db_exec(db, steps[i], why);
    if (!rc && version < n_steps) {
        snprintf(text, sizeof(text), "PRAGMA user_version=%d", n_steps);
        rc = db_exec(db, text, why);
    }
    return rc;
}

enum status
db_migrate(struct db *db, const char *const *steps, int n_steps,
           struct problem *why)
{
    enum status rc = db_exec(db, "BEGIN IMMEDIATE", why);

    if (rc)
        return rc;
    rc = migrate(db, steps, n_steps, why);
    if (!rc)
        rc = db_exec(db, "COMMIT", why);
    if (rc && !sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

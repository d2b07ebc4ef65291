#include "broker/store/store_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/db.h"

/* 0.1 s for 400 MB that are in the cache of the system (measured); else what
 * the disk takes. */
#define CHECKED_BYTES ((off_t)1 << 30)

/* Ours, once the first step of store.c's migrations is done. */
#define COUNT_TABLES                                          \
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table'" \
    " AND name IN ('sets', 'batches', 'lists')"
#define N_TABLES 3

/* Is there a file of that name, and not empty? */
static bool
has_bytes(const char *path, const char *suffix)
{
    char name[4300];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 && (S_ISDIR(st.st_mode) || st.st_size > 0);
}

/* No database: right where there never was one. A new one would begin to number
 * lists from 1 again, and write over the files that are there. */
static enum status
check_beginning(const char *dir, const char *path, struct problem *why)
{
    if (has_bytes(path, "-wal"))
        return problem(why, STATUS_IO,
                       "%s is missing or empty, but its log %s-wal is there",
                       path, path);
    if (has_bytes(dir, "/sets"))
        return problem(why, STATUS_IO,
                       "%s is missing or empty, but there are lists in %s/sets",
                       path, dir);
    return STATUS_OK;
}

/* The first column of the first row, a number or a text. */
static enum status
query_value(struct db *db, const char *sql, long *number, char *text,
            size_t size, struct problem *why)
{
    sqlite3_stmt *q = NULL;
    bool row = false;
    enum status rc = db_prepare(db, &q, sql, why);

    if (!rc)
        rc = db_step(db, q, &row, "read it", why);
    if (!rc && !row)
        rc = problem(why, STATUS_IO, "it does not answer");
    if (!rc && number)
        *number = (long)sqlite3_column_int64(q, 0);
    if (!rc && text)
        snprintf(text, size, "%.*s", SLICE_ARG(db_column(q, 0)));
    sqlite3_finalize(q);
    return rc;
}

static enum status
check_database(struct db *db, off_t size, int n_steps, struct problem *why)
{
    long version = 0, n_tables = 0;
    char verdict[300];
    enum status rc =
        query_value(db, "PRAGMA user_version", &version, NULL, 0, why);

    if (!rc)
        rc = query_value(db, COUNT_TABLES, &n_tables, NULL, 0, why);
    if (!rc && version == 0)
        rc = query_value(db, "SELECT count(*) FROM sqlite_schema", &n_tables,
                         NULL, 0, why);
    if (!rc && n_tables != (version == 0 ? 0 : N_TABLES))
        rc = problem(why, STATUS_IO, "it is the database of another program");
    if (!rc)
        rc = db_check_version(db, n_steps, why);
    if (rc || size > CHECKED_BYTES)
        return rc;
    rc = query_value(db, "PRAGMA quick_check(1)", NULL, verdict,
                     sizeof(verdict), why);
    if (!rc && strcmp(verdict, "ok") != 0)
        rc = problem(why, STATUS_IO, "it is damaged: %.*s",
                     (int)strcspn(verdict, "\n"), verdict);
    return rc;
}

enum status
store_check(const char *dir, const char *path, int n_steps, struct problem *why)
{
    struct problem reason = {""};
    struct stat st = {0};
    struct db db = {NULL};
    enum status rc;

    if (stat(path, &st) && errno != ENOENT) {
        problem_errno(why, "cannot open", path);
        return STATUS_IO;
    }
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        problem_errno(why, "cannot open", path);
        return STATUS_IO;
    }
    if (st.st_size == 0)
        return check_beginning(dir, path, why);

    rc = db_open(&db, path, DB_LOOK, &reason);
    if (!rc)
        rc = check_database(&db, st.st_size, n_steps, &reason);
    db_close(&db);
    if (rc)
        return problem(why, STATUS_IO, "%s cannot be used: %s", path,
                       reason.text);
    return STATUS_OK;
}

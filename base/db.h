/*
 * db.h - SQLite with our settings, and errors as enum status.
 *
 * A connection belongs to one thread at a time. Statements are prepared once
 * and kept.
 */
#ifndef BASE_DB_H
#define BASE_DB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct db {
    sqlite3 *handle; /* NULL: not open */
    bool is_damaged; /* since db_open SQLite has reported that the file is no
                        database, or damaged; stays set after db_close */
    bool is_exposed; /* other users may open the file, and db_open could not
                        change its mode */
};

enum db_mode {
    DB_WRITER, /* creates the file; WAL, synchronous=FULL, page_size 16384,
                  secure_delete off, no auto-vacuum, no automatic checkpoint */
    DB_SMALL,  /* the same for small rows: page_size 4096, and a checkpoint
                  whenever the WAL has 1,000 pages */
    DB_READER,
    DB_LOOK /* reads, and leaves directory and file as they are: takes no lock,
               makes no -shm, empties no WAL. No other connection may have the
               file open: one of this process would lose its locks. */
};

MUST_CHECK enum status db_open(struct db *db, const char *path,
                               enum db_mode mode, struct problem *why);
void db_close(struct db *db); /* finalise its statements first */

/* From now on a statement gives up when *is_ending is true, and its transaction
 * is rolled back: STATUS_STOPPED. `is_ending` is lent. */
void db_heed(struct db *db, const atomic_bool *is_ending);

/* Runs the SQL texts of `steps` from PRAGMA user_version on, in one
 * transaction, and counts user_version up. STATUS_INVALID: the file is newer
 * than `n_steps`. */
MUST_CHECK enum status db_migrate(struct db *db, const char *const *steps,
                                  int n_steps, struct problem *why);

/* Checks that db_migrate could continue from the file's version.
 * STATUS_INVALID: the file is newer than `n_steps`. */
MUST_CHECK enum status db_check_version(struct db *db, int n_steps,
                                        struct problem *why);

/* Checks the version of a database that is not open anywhere, before a writer
 * opens it. A missing or empty file is good. STATUS_IO: it cannot be used, or
 * is newer. */
MUST_CHECK enum status db_check(const char *path, int n_steps,
                                struct problem *why);

MUST_CHECK enum status db_exec(struct db *db, const char *sql,
                               struct problem *why);
MUST_CHECK enum status db_prepare(struct db *db, sqlite3_stmt **statement,
                                  const char *sql, struct problem *why);

/* Translates an SQLite result: STATUS_BUSY for SQLITE_FULL, SQLITE_BUSY and
 * SQLITE_LOCKED, STATUS_MEMORY, STATUS_STOPPED, else STATUS_IO; writes "cannot
 * WHAT: ...". */
MUST_CHECK enum status db_problem(struct db *db, int result, const char *what,
                                  struct problem *why);

/* Calls sqlite3_step: STATUS_OK with *row set, or the error; the caller
 * resets. */
MUST_CHECK enum status db_step(struct db *db, sqlite3_stmt *statement,
                               bool *row, const char *what,
                               struct problem *why);

/* Steps to the end, expecting no row, and resets. */
MUST_CHECK enum status db_run(struct db *db, sqlite3_stmt *statement,
                              const char *what, struct problem *why);

struct slice db_column(sqlite3_stmt *statement, int column);

#endif

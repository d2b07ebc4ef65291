/*
 * db.h - SQLite with our settings, and errors as enum status.
 *
 * A connection belongs to one thread at a time. Statements are prepared once
 * and kept.
 */
#pragma once

#include <sqlite3.h>

#include "base/db_values.h"
#include "base/map.h"
#include "base/relaxed.h"

enum db_mode {
    DB_WRITER, /* creates the file; WAL, synchronous=FULL, page_size 2048,
                  secure_delete off, no auto-vacuum, no automatic checkpoint */
    DB_SMALL, /* the same with page_size 4096, and a checkpoint whenever the WAL
                 has 1,000 pages */
    DB_READER,
    DB_LOOK, /* reads, and leaves directory and file as they are: takes no lock,
                makes no -shm, empties no WAL. No other connection may have the
                file open: one of this process would lose its locks. */

    /* These leave the permissions of the file to the user. */
    DB_OWN,          /* creates the file, and locks out other processes while it
                        is open; WAL, synchronous=FULL */
    DB_OWN_ROLLBACK, /* the same with a rollback journal: the end of a
                        transaction copies nothing into the file */
    DB_SHARED,       /* creates the file; other processes may write it, and are
                        waited for; the journal mode stays that of the file */
    DB_SCRATCH       /* a file that need not survive: no journal, no fsync, and
                        after db_rollback it is of no use */
};

/* The description of an owner's database file; static and constant. */
struct db_kind {
    const char *name; /* in problems: "the spool"; NULL: none */
    enum db_mode mode;
    int application_id;       /* of SQLite's file header; 0: not looked at */
    const char *const *steps; /* db_migrate runs them */
    int n_steps;
    const char *opening; /* runs each time, before the steps: settings of the
                            connection, temporary tables; NULL: none */
    const char *ceding;  /* a table whose rows a cluster replaces by its own
                            (broker/cluster/owned_db.h); NULL: none */
};

/* Its steps, as an array. */
#define DB_STEPS(array) .steps = (array), .n_steps = N_ELEMENTS(array)

struct db {
    sqlite3 *handle;            /* NULL: not open */
    const struct db_kind *kind; /* of db_open_kind, else NULL */
    struct map kept;            /* statements of db_keep, by their texts */
    struct db_connection *connection; /* owned; NULL: the file has no WAL */
    bool is_damaged;  /* since db_open SQLite has reported that the file is no
                         database, or damaged; stays set after db_close */
    bool is_exposed;  /* other users may open the file, and db_open could not
                         change its mode */
    bool is_lax;      /* synchronous=NORMAL: db_begin_firm */
    bool is_doubtful; /* a transaction has failed, perhaps in fsync: the WAL may
                         be damaged. db_begin_firm */
};

/* If the file is missing, this waits until the process has closed all
 * connections to a file of that name (db.c), the caller's own, too. */
MUST_CHECK enum status db_open(struct db *db, const char *path,
                               enum db_mode mode, struct problem *why);

/* Opens a file of that kind: makes it or checks its application_id, and
 * migrates it. `path` is SQLite's: ":memory:" is a
 * database in memory, "" a temporary file without a name. `kind` is lent.
 * STATUS_BUSY: another process has it; STATUS_INVALID: it is another program's
 * file, or newer than `n_steps`. After a failure it is closed. */
MUST_CHECK enum status db_open_kind(struct db *db, const struct db_kind *kind,
                                    const char *path, struct problem *why);

/* Rolls back an open transaction, and frees the kept statements. Finalise
 * others first. Harmless if the database is not open. */
void db_close(struct db *db);

/* Deletes a database that no connection has open, and its WAL. A missing one is
 * no error. */
MUST_CHECK enum status db_unlink(const char *path, struct problem *why);

/* Copies the database `from`, which other processes may be writing, to the new
 * file `to`, as it is at one moment, and checks the copy. Waits for no writer,
 * and makes none wait, but keeps its WAL from beginning anew meanwhile. The
 * caller syncs. STATUS_GONE: `from` cannot be read, or is damaged: there is no
 * copy, and `why` has the reason, without a name. STATUS_IO, STATUS_BUSY: the
 * copy cannot be written; `why` names it. */
MUST_CHECK enum status db_copy(const char *from, const char *to,
                               struct problem *why);

/* From now on a statement gives up when `is_over` returns true, which is asked
 * every few microseconds of work, and its transaction is rolled back:
 * STATUS_STOPPED. `user` is lent. */
void db_interrupt(struct db *db, int (*is_over)(void *user), void *user);

/* The same when *is_ending is true. `is_ending` is lent. */
void db_heed(struct db *db, const atomic_bool *is_ending);

/* Runs the SQL texts of `steps` from PRAGMA user_version on, in one
 * transaction, and counts user_version up. STATUS_INVALID: the file is newer
 * than `n_steps`. */
MUST_CHECK enum status db_migrate(struct db *db, const char *const *steps,
                                  int n_steps, struct problem *why);

/* Checks that db_migrate could continue from the file's version, which goes to
 * `*version`, unless that is NULL. STATUS_INVALID: the file is newer than
 * `n_steps`, or, of a kind, another program's. */
MUST_CHECK enum status db_check_version(struct db *db, int n_steps,
                                        int64_t *version, struct problem *why);

/* Checks the version of a database that is not open anywhere, before a writer
 * opens it. A missing or empty file is good. STATUS_IO: it cannot be used, or
 * is newer. */
MUST_CHECK enum status db_check(const char *path, int n_steps,
                                struct problem *why);

/* Reads PRAGMA user_version of a database that is not open anywhere.
 * STATUS_NOT_FOUND: there is no file, or it is empty. STATUS_IO: it cannot be
 * read; STATUS_MALFORMED: it is no database. */
MUST_CHECK enum status db_look_version(const char *path, int64_t *version,
                                       struct problem *why);

MUST_CHECK enum status db_exec(struct db *db, const char *sql,
                               struct problem *why);

/* The same, and appends the first column of each row, a text, to `to`. */
MUST_CHECK enum status db_script(struct db *db, const char *sql, struct buf *to,
                                 struct problem *why);
MUST_CHECK enum status db_prepare(struct db *db, sqlite3_stmt **statement,
                                  const char *sql, struct problem *why);

/* Finds the statement of a text, which it prepares at the first call and keeps
 * until db_close. A text should stay where it is: its address finds the
 * statement. If the database lacks its tables it counts as damaged. */
MUST_CHECK enum status db_keep(struct db *db, sqlite3_stmt **statement,
                               const char *sql, struct problem *why);

/* Begins a transaction that writes. */
MUST_CHECK enum status db_begin(struct db *db, struct problem *why);

/* The same, and decides how firmly its commit is kept, for a writer with a WAL.
 * `is_firm`: this commit and all earlier ones survive a power failure (an
 * fsync). Else the kernel has it, so it outlives this process; after a power
 * failure the WAL ends at an earlier commit. After a failed transaction it
 * first moves all commits into the file, and begins the WAL anew: frames behind
 * a damaged one would be lost, however well they were synced, and the next
 * start might find a commit that was reported as failed. */
MUST_CHECK enum status db_begin_firm(struct db *db, bool is_firm,
                                     struct problem *why);

/* Ends the transaction: commits it if `rc` is STATUS_OK; otherwise, or if the
 * commit fails, rolls it back. Returns `rc` or the error of the commit. */
MUST_CHECK enum status db_end(struct db *db, enum status rc,
                              struct problem *why);
void db_rollback(struct db *db); /* harmless without a transaction */

/* Writes a sentence about the database, with "NAME FILE: " before it if its
 * kind has a name. Returns `rc`. */
enum status db_fail(struct db *db, enum status rc, struct problem *why,
                    const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Translates an SQLite result: STATUS_BUSY for SQLITE_FULL, SQLITE_BUSY and
 * SQLITE_LOCKED, STATUS_MEMORY, STATUS_STOPPED, else STATUS_IO; writes "cannot
 * WHAT: REASON" (db_fail). `what` NULL: "REASON". */
MUST_CHECK enum status db_problem(struct db *db, int result, const char *what,
                                  struct problem *why);

/* Calls sqlite3_step: STATUS_OK with *row set, or the error; the caller
 * resets. `what` NULL: "read FILE" or "write FILE", or nothing if the database
 * has a name. */
MUST_CHECK enum status db_step(struct db *db, sqlite3_stmt *statement,
                               bool *row, const char *what,
                               struct problem *why);

/* Runs a query without parameters. `*number`: the first column of its row. */
MUST_CHECK enum status db_number(struct db *db, const char *sql,
                                 int64_t *number, struct problem *why);

/* Statements with their values, and rows with their columns.
 *
 *     rc = DB_DO(db, "write hub.db", why,
 *                "UPDATE cursors SET after=?, range_last=? WHERE id=?", after,
 *                last, id);
 *
 *     rc = db_find(db, NULL, why, &is_there,
 *                  "SELECT length, n FROM files WHERE digest=?",
 *                  DB_VALUES(digest), DB_INTO(&length, &n));
 *
 *     struct db_rows rows =
 *         DB_SELECT(db, NULL, why, "SELECT name, us FROM logs");
 *     struct slice name;
 *     int64_t us;
 *
 *     while (DB_NEXT(&rows, &name, &us))
 *         rows.rc = report(name, us, why);
 *     return db_rows_end(&rows);
 *
 * db_values.h has the types of values and places. There is a value for each
 * parameter, and NULL for those without one.
 *
 * The text of a statement is a literal, or stays where it is: it is prepared
 * once and kept (db_keep). `what` says what failed, "cannot WHAT: REASON"; for
 * NULL see db_step. A statement is reset, and lends nothing any more, when its
 * function returns, or at db_rows_end.
 */

/* Runs a statement that returns no row. */
#define DB_DO(db, what, why, sql, ...) \
    db_do((db), (what), (why), (sql), DB_VALUES(__VA_ARGS__))
#define db_do(db, what, why, sql, values) \
    db_find((db), (what), (why), NULL, (sql), (values), DB_INTO())

/* Reads the first row; without one the places keep what they have. No place is
 * a slice. *is_there: there is a row; NULL: nobody asks. */
MUST_CHECK enum status db_find(struct db *db, const char *what,
                               struct problem *why, bool *is_there,
                               const char *sql, const struct db_value *values,
                               const struct db_target *into);

/* A query under way. All pointers are lent. */
struct db_rows {
    struct db *db;
    sqlite3_stmt *statement; /* NULL: it could not be prepared */
    enum status rc; /* of the query; a caller that sets it ends the query */
    const char *what;
    struct problem *why;
};

/* Begins a query: db_rows_end must follow. */
#define DB_SELECT(db, what, why, sql, ...) \
    db_select((db), (what), (why), (sql), DB_VALUES(__VA_ARGS__))

struct db_rows db_select(struct db *db, const char *what, struct problem *why,
                         const char *sql, const struct db_value *values);

/* Reads the next row. False: there is none, or an error. */
#define DB_NEXT(rows, ...) db_next((rows), DB_INTO(__VA_ARGS__))

bool db_next(struct db_rows *rows, const struct db_target *into);

/* Ends the query, and returns its status. */
MUST_CHECK enum status db_rows_end(struct db_rows *rows);

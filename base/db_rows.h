/*
 * db_rows.h - statements with their values, and rows with their columns.
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
#ifndef BASE_DB_ROWS_H
#define BASE_DB_ROWS_H

#include <stdbool.h>

#include "base/db.h"
#include "base/db_values.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Runs a statement that returns no row. */
#define DB_DO(db, what, why, sql, ...) \
    db_do((db), (what), (why), (sql), DB_VALUES(__VA_ARGS__))

MUST_CHECK enum status db_do(struct db *db, const char *what,
                             struct problem *why, const char *sql,
                             const struct db_value *values);

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

#endif

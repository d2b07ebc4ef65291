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
 * The C type of a value or a column says how it is bound or read; a type that
 * is not listed below does not compile. There is a value for each parameter,
 * and NULL for those without one.
 *
 * The text of a statement is a literal, or stays where it is: it is prepared
 * once and kept (db_keep). `what` says what failed, "cannot WHAT: REASON"; for
 * NULL see db_step. A statement is reset, and lends nothing any more, when its
 * function returns, or at db_rows_end.
 */
#ifndef BASE_DB_ROWS_H
#define BASE_DB_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/db.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/digest.h"
#include "proto/slice.h"
#include "proto/status.h"

/* A value for a parameter: an integer of any size, a bool, a struct slice (a
 * text), a char * (a text; NULL: NULL), a struct digest * (bytes; NULL: NULL)
 * or a struct db_value. Texts and bytes are lent. */
struct db_value {
    int type; /* SQLite's; 0: the end of the values */

    union {
        int64_t number;
        double real;
        struct slice bytes;
    };
};

/* DB_VALUES(a, b, ...): the values of a statement. */
#define DB_VALUES(...) \
    ((const struct db_value[]){DB_FOR_EACH(DB_VALUE, __VA_ARGS__){.type = 0}})

/* Bytes, where a slice alone would be a text. */
static inline struct db_value
db_bytes(const void *bytes, size_t size)
{
    return (struct db_value){SQLITE_BLOB, .bytes = {bytes, size}};
}

static inline struct db_value
db_blob(struct slice bytes)
{
    return db_bytes(bytes.data, bytes.size);
}

/* A place for a column, given by its address: an integer of 32 or 64 bits, a
 * bool, a struct slice (lent by the row), a struct buf (which gets the bytes
 * appended), a struct digest (all zero: the column has none) or an array of
 * char (for a text, terminated; "": it is NULL, or too long). */
struct db_target {
    enum { DB_BOOL, DB_32, DB_64, DB_SLICE, DB_BUF, DB_DIGEST, DB_CHARS } type;

    void *to; /* NULL: the end of the columns */
    size_t size;
};

/* DB_INTO(&a, &b, ...): the places for the columns of a row, in their order;
 * further columns are ignored. */
#define DB_INTO(...)             \
    ((const struct db_target[]){ \
        DB_FOR_EACH(DB_TARGET, __VA_ARGS__){.to = NULL}})

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

/* How the macros above work. */

static inline struct db_value
db_value_same(struct db_value value)
{
    return value;
}

static inline struct db_value
db_value_number(int64_t number)
{
    return (struct db_value){SQLITE_INTEGER, .number = number};
}

static inline struct db_value
db_value_text(struct slice text)
{
    return (struct db_value){SQLITE_TEXT, .bytes = text};
}

static inline struct db_value
db_value_chars(const char *text)
{
    return (struct db_value){text ? SQLITE_TEXT : SQLITE_NULL,
                             .bytes = slice_of(text)};
}

static inline struct db_value
db_value_digest(const struct digest *digest)
{
    return digest ? db_bytes(digest->bytes, DIGEST_SIZE) : db_value_chars(NULL);
}

#define DB_VALUE(x) \
    _Generic((x),                               \
        struct db_value: db_value_same,         \
        struct slice: db_value_text,            \
        char *: db_value_chars,                 \
        const char *: db_value_chars,           \
        struct digest *: db_value_digest,       \
        const struct digest *: db_value_digest, \
        default: db_value_number)(x)

#define DB_TARGET(x)                         \
    (struct db_target)                       \
    {                                        \
        DB_TARGET_TYPE(x), (x), sizeof(*(x)) \
    }

/* An array decays to a pointer to its first char; a pointer is no place. */
#define DB_TARGET_TYPE(x) \
    _Generic((x), char **: "no place",        \
             default: _Generic(*(x),          \
                 bool: DB_BOOL,               \
                 int32_t: DB_32,              \
                 uint32_t: DB_32,             \
                 int64_t: DB_64,              \
                 uint64_t: DB_64,             \
                 struct slice: DB_SLICE,      \
                 struct buf: DB_BUF,          \
                 struct digest: DB_DIGEST,    \
                 char *: DB_CHARS))

/* DB_FOR_EACH(F, a, b, ...): F(a), F(b), ..., for up to 64 of them. A macro
 * does not expand itself; so DB_FOR_NEXT stands behind an expansion that is not
 * complete until DB_SCAN reads it again. (gcc shows each of these steps with an
 * error, but not with -ftrack-macro-expansion=0.) */
#define DB_FOR_EACH(f, ...) __VA_OPT__(DB_SCAN_64(DB_FOR_ONE(f, __VA_ARGS__)))
#define DB_FOR_ONE(f, x, ...) \
    f(x), __VA_OPT__(DB_FOR_NEXT DB_NOTHING()()(f, __VA_ARGS__))
#define DB_FOR_NEXT() DB_FOR_ONE
#define DB_NOTHING()
#define DB_SCAN_4(...)  DB_SCAN(DB_SCAN(DB_SCAN(DB_SCAN(__VA_ARGS__))))
#define DB_SCAN_16(...) DB_SCAN_4(DB_SCAN_4(DB_SCAN_4(DB_SCAN_4(__VA_ARGS__))))
#define DB_SCAN_64(...) \
    DB_SCAN_16(DB_SCAN_16(DB_SCAN_16(DB_SCAN_16(__VA_ARGS__))))
#define DB_SCAN(...) __VA_ARGS__

#endif

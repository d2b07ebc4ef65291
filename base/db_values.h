/*
 * db_values.h - the values of a statement, and the places for the columns of a
 * row: the same for SQLite (db.h) and PostgreSQL
 * (broker/journal/pg_connection.h).
 *
 *     DB_VALUES(set->id, name, &digest)
 *     DB_INTO(&seq, &name, &digest)
 *
 * The C type of a value or a column says how it is bound or read; a type that
 * is not listed below does not compile.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* A value for a parameter: an integer of any size, a bool, a struct slice (a
 * text), a char * (a text; NULL: NULL), a struct digest * (bytes; NULL: NULL)
 * or a struct db_value. Texts and bytes are lent. */
enum { DB_INTEGER = 1, DB_REAL, DB_TEXT, DB_BYTES, DB_NULL }; /* SQLite's */

struct db_value {
    int type; /* 0: the end of the values */

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
    return (struct db_value){DB_BYTES, .bytes = {bytes, size}};
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

/* Puts the bytes of a column into a place that is neither a number nor a
 * bool. */
void db_put_bytes(const struct db_target *target, struct slice bytes);

/* How the macros above work. */

static inline struct db_value
db_value_same(struct db_value value)
{
    return value;
}

static inline struct db_value
db_value_number(int64_t number)
{
    return (struct db_value){DB_INTEGER, .number = number};
}

static inline struct db_value
db_value_text(struct slice text)
{
    return (struct db_value){DB_TEXT, .bytes = text};
}

static inline struct db_value
db_value_chars(const char *text)
{
    return (struct db_value){text ? DB_TEXT : DB_NULL, .bytes = slice_of(text)};
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

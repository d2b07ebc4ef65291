#include "base/db_rows.h"

#include <string.h>

/* An empty slice is '', not NULL. */
static const char *
data_of(struct slice bytes)
{
    return bytes.size ? bytes.data : "";
}

static void
bind_values(sqlite3_stmt *statement, const struct db_value *values)
{
    for (int n = 1; values->type; values++, n++)
        if (values->type == SQLITE_INTEGER)
            sqlite3_bind_int64(statement, n, values->number);
        else if (values->type == SQLITE_FLOAT)
            sqlite3_bind_double(statement, n, values->real);
        else if (values->type == SQLITE_TEXT)
            sqlite3_bind_text64(statement, n, data_of(values->bytes),
                                values->bytes.size, SQLITE_STATIC, SQLITE_UTF8);
        else if (values->type == SQLITE_BLOB)
            sqlite3_bind_blob64(statement, n, data_of(values->bytes),
                                values->bytes.size, SQLITE_STATIC);
}

static void
read_column(sqlite3_stmt *row, int column, const struct db_target *target)
{
    struct slice bytes;

    switch (target->type) {
    case DB_BOOL:
        *(bool *)target->to = sqlite3_column_int(row, column) != 0;
        return;
    case DB_32:
        *(uint32_t *)target->to = (uint32_t)sqlite3_column_int64(row, column);
        return;
    case DB_64:
        *(int64_t *)target->to = sqlite3_column_int64(row, column);
        return;
    case DB_CHARS:
        db_text(row, column, target->to, target->size);
        return;
    default:
        break;
    }
    bytes = db_column(row, column);
    if (target->type == DB_SLICE)
        *(struct slice *)target->to = bytes;
    else if (target->type == DB_BUF)
        buf_add_slice(target->to, bytes);
    else if (bytes.size == target->size)
        memcpy(target->to, bytes.data, bytes.size);
    else
        memset(target->to, 0, target->size);
}

/* Statements */

struct db_rows
db_select(struct db *db, const char *what, struct problem *why, const char *sql,
          const struct db_value *values)
{
    struct db_rows rows = {.db = db, .what = what, .why = why};

    rows.rc = db_keep(db, &rows.statement, sql, why);
    if (rows.statement)
        bind_values(rows.statement, values);
    return rows;
}

bool
db_next(struct db_rows *rows, const struct db_target *into)
{
    bool row = false;

    if (!rows->rc)
        rows->rc =
            db_step(rows->db, rows->statement, &row, rows->what, rows->why);
    for (int i = 0; row && into[i].to; i++)
        read_column(rows->statement, i, &into[i]);
    return row;
}

enum status
db_rows_end(struct db_rows *rows)
{
    if (rows->statement) {
        sqlite3_reset(rows->statement);
        sqlite3_clear_bindings(rows->statement);
    }
    return rows->rc;
}

enum status
db_find(struct db *db, const char *what, struct problem *why, bool *is_there,
        const char *sql, const struct db_value *values,
        const struct db_target *into)
{
    struct db_rows rows = db_select(db, what, why, sql, values);
    bool row = db_next(&rows, into);

    if (is_there)
        *is_there = row;
    return db_rows_end(&rows);
}

enum status
db_do(struct db *db, const char *what, struct problem *why, const char *sql,
      const struct db_value *values)
{
    return db_find(db, what, why, NULL, sql, values, DB_INTO());
}

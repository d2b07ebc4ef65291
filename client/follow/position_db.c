/*
 * position_db.c - keeps a position in an SQLite database, in its open
 * transaction.
 */
#include <string.h>

#include "base/db.h"
#include "client/source/source_position.h"
#include "client/tidings.h"

/* Runs one statement on the program's connection, with up to two texts. `to`
 * gets the first column, if there is a row; NULL: not wanted. */
static enum td_status
run_statement(struct sqlite3 *handle, const char *sql, const char *first,
              const char *second, char *to)
{
    struct db db = {.handle = handle}; /* the program's: its settings stay */
    sqlite3_stmt *statement = NULL;
    bool row = false;
    enum status rc = db_prepare(&db, &statement, sql, NULL);

    if (!rc && first)
        db_bind_text(statement, 1, slice_of(first));
    if (!rc && second)
        db_bind_text(statement, 2, slice_of(second));
    if (!rc)
        rc = db_step(&db, statement, &row, NULL, NULL);
    if (row && to)
        db_text(statement, 0, to, TD_POSITION_SIZE);
    sqlite3_finalize(statement);
    return rc ? TD_IO : TD_OK;
}

enum td_status
td_position_save(struct sqlite3 *db, const char *name, const char *position)
{
    struct source_position place;

    if (strlen(position) >= TD_POSITION_SIZE ||
        source_position_read(slice_of(position), &place))
        return TD_INVALID;
    if (run_statement(db,
                      "CREATE TABLE IF NOT EXISTS td_position("
                      "name TEXT PRIMARY KEY, position TEXT)",
                      NULL, NULL, NULL))
        return TD_IO;
    return run_statement(db,
                         "INSERT OR REPLACE INTO td_position VALUES(?1, ?2)",
                         name, position, NULL);
}

/* Creates nothing: the database may be read-only. */
enum td_status
td_position_load(struct sqlite3 *db, const char *name,
                 char position[TD_POSITION_SIZE])
{
    char table[TD_POSITION_SIZE] = "";
    struct source_position place;

    position[0] = '\0';
    if (run_statement(db,
                      "SELECT name FROM sqlite_master WHERE type = 'table' "
                      "AND name = 'td_position'",
                      NULL, NULL, table))
        return TD_IO;
    if (!table[0])
        return TD_OK;
    if (run_statement(db, "SELECT position FROM td_position WHERE name = ?1",
                      name, NULL, position))
        return TD_IO;
    if (position[0] && source_position_read(slice_of(position), &place))
        return TD_INVALID;
    return TD_OK;
}

/*
 * position_db.c - keeps a position in an SQLite database, in its open
 * transaction.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "client/source/source_position.h"
#include "client/tidings.h"

/* Runs one statement with up to two texts. `to` gets the first column, if there
 * is a row; NULL: not wanted. Returns SQLite's result code, 0 if all is well.
 */
static int
run(struct sqlite3 *db, const char *sql, const char *first, const char *second,
    char *to)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (!rc && first)
        rc = sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC);
    if (!rc && second)
        rc = sqlite3_bind_text(statement, 2, second, -1, SQLITE_STATIC);
    if (!rc) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW && to) {
            const char *text = (const char *)sqlite3_column_text(statement, 0);

            snprintf(to, TD_POSITION_SIZE, "%s", text ? text : "");
        }
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    sqlite3_finalize(statement);
    return rc;
}

enum td_status
td_position_save(struct sqlite3 *db, const char *name, const char *position)
{
    struct source_position place;

    if (strlen(position) >= TD_POSITION_SIZE ||
        source_position_read(slice_of(position), &place))
        return TD_INVALID;
    if (run(db,
            "CREATE TABLE IF NOT EXISTS td_position("
            "name TEXT PRIMARY KEY, position TEXT)",
            NULL, NULL, NULL))
        return TD_IO;
    return run(db, "INSERT OR REPLACE INTO td_position VALUES(?1, ?2)", name,
               position, NULL)
               ? TD_IO
               : TD_OK;
}

/* Creates nothing: the database may be read-only. */
enum td_status
td_position_load(struct sqlite3 *db, const char *name,
                 char position[TD_POSITION_SIZE])
{
    char table[TD_POSITION_SIZE] = "";
    struct source_position place;

    position[0] = '\0';
    if (run(db,
            "SELECT name FROM sqlite_master WHERE type = 'table' "
            "AND name = 'td_position'",
            NULL, NULL, table))
        return TD_IO;
    if (!table[0])
        return TD_OK;
    if (run(db, "SELECT position FROM td_position WHERE name = ?1", name, NULL,
            position))
        return TD_IO;
    if (position[0] && source_position_read(slice_of(position), &place))
        return TD_INVALID;
    return TD_OK;
}

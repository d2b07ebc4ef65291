/*
 * position_store.c - keeps a position: in a file of one line, or in an SQLite
 * database, in its open transaction.
 */
#include <fcntl.h>
#include <libgen.h>
#include <unistd.h>

#include "base/db.h"
#include "base/file.h"
#include "client/lib/client.h"
#include "client/source/source_position.h"

static bool
is_position(const char *text)
{
    struct source_position place;
    const char *digest;

    return strlen(text) < TD_POSITION_SIZE &&
           !source_mark_read(slice_of(text), &place, &digest);
}

void
td_message_mark(const struct td_message *message, char mark[TD_POSITION_SIZE])
{
    bool has_digest = message->position && message->digest;

    snprintf(mark, TD_POSITION_SIZE, "%s%s%s",
             message->position ? message->position : "", has_digest ? " " : "",
             has_digest ? message->digest : "");
}

/* Files */

enum td_status
td_position_read(struct td_client *client, const char *path,
                 char position[TD_POSITION_SIZE])
{
    char line[TD_POSITION_SIZE + 1];
    ssize_t size = file_read(AT_FDCWD, path, line, sizeof(line) - 1);
    enum status rc = STATUS_OK;

    client_begin(client);
    position[0] = '\0';
    if (size < 0 && errno != ENOENT)
        rc = problem_errno(&client->problem, "cannot read", path);
    if (size < 0)
        return client_end(client, rc);
    while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
        size--;
    line[size] = '\0';
    if (is_position(line))
        strcpy(position, line);
    else
        rc = client_fail(client, STATUS_INVALID, "%s holds no position", path);
    return client_end(client, rc);
}

enum td_status
td_position_write(struct td_client *client, const char *path,
                  const char *position)
{
    const char *slash = strrchr(path, '/');
    char line[TD_POSITION_SIZE + 1];
    enum status rc = STATUS_IO;
    char *copy;

    client_begin(client);
    if (!is_position(position))
        return client_end(client,
                          client_fail(client, STATUS_INVALID,
                                      "not a position: \"%.80s\"", position));
    snprintf(line, sizeof(line), "%s\n", position);
    copy = strdup(path); /* for dirname, which changes it */
    if (copy)
        rc = file_store_in(dirname(copy), slash ? slash + 1 : path,
                           slice_of(line), false, NULL);
    if (rc)
        client_fail(client, rc, "cannot write %s: %s", path, strerror(errno));
    free(copy);
    return client_end(client, rc);
}

/* Databases */

/* Runs one statement on the program's connection, with up to two texts. `to`
 * gets the first column, if there is a row; NULL: not wanted. */
static enum td_status
run_statement(struct sqlite3 *handle, const char *sql, const char *first,
              const char *second, char *to)
{
    struct db db = {.handle = handle}; /* the program's: its settings stay */
    struct db_target column[] = {{DB_CHARS, to, TD_POSITION_SIZE},
                                 {.to = NULL}};
    enum status rc =
        db_find(&db, NULL, NULL, NULL, sql, DB_VALUES(first, second), column);

    db.handle = NULL; /* stays open */
    db_close(&db);
    return rc ? TD_IO : TD_OK;
}

enum td_status
td_position_save(struct sqlite3 *db, const char *name, const char *position)
{
    if (!is_position(position))
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
    if (position[0] && !is_position(position))
        return TD_INVALID;
    return TD_OK;
}

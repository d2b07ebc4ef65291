#include "tests/support/booked.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/test.h"

/* A member that is told anew replaces its row, which fires no trigger of
 * DELETE. */
static const char keeping[] =
    "CREATE TABLE booked (n INTEGER PRIMARY KEY, loc TEXT, hash TEXT,"
    " position TEXT);"
    "CREATE TRIGGER booked_told AFTER INSERT ON members BEGIN"
    " INSERT INTO booked SELECT NULL, CAST(loc AS TEXT),"
    " CAST(new.hash AS TEXT), NULL FROM resources WHERE id = new.resource;"
    "END;"
    "CREATE TRIGGER booked_deleted AFTER DELETE ON members BEGIN"
    " INSERT INTO booked SELECT NULL, CAST(loc AS TEXT), NULL, NULL"
    " FROM resources WHERE id = old.resource;"
    "END;"
    "CREATE TRIGGER booked_reached AFTER UPDATE OF position ON sets BEGIN"
    " INSERT INTO booked VALUES (NULL, NULL, NULL, new.position);"
    "END;";

static sqlite3 *
open_book(const char *dir)
{
    char path[PATH_MAX];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/.tidings/mirror.db", dir);
    if (access(path, F_OK))
        return NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_OK);
    /* Who was killed may not be gone altogether. */
    sqlite3_busy_timeout(db, 120000);
    return db;
}

void
booked_begin(const char *dir)
{
    sqlite3 *db = open_book(dir);
    char *why = NULL;

    assert_non_null(db);
    if (sqlite3_exec(db, keeping, NULL, NULL, &why))
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

uint64_t
booked_seq(const char *dir)
{
    sqlite3 *db = open_book(dir);
    sqlite3_stmt *s = NULL;
    uint64_t seq = 0;

    /* A new one may not have its tables yet. */
    if (db &&
        !sqlite3_prepare_v2(db, "SELECT position FROM sets", -1, &s, NULL) &&
        sqlite3_step(s) == SQLITE_ROW) {
        const char *dash =
            strrchr((const char *)sqlite3_column_text(s, 0), '-');

        seq = dash ? strtoull(dash + 1, NULL, 10) : 0;
    }
    sqlite3_finalize(s);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return seq;
}

void
booked_each(const char *dir, booked_fn *each, void *user)
{
    sqlite3 *db = open_book(dir);
    sqlite3_stmt *s = NULL;
    int rc;

    assert_non_null(db);
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "SELECT loc, hash, position FROM booked ORDER BY n",
                           -1, &s, NULL),
        SQLITE_OK);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        each((const char *)sqlite3_column_text(s, 0),
             (const char *)sqlite3_column_text(s, 1),
             (const char *)sqlite3_column_text(s, 2), user);
    assert_int_equal(rc, SQLITE_DONE);
    sqlite3_finalize(s);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

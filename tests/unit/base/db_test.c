#include "broker/base/db.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

static void
path_of(void **state, const char *name, char path[400])
{
    snprintf(path, 400, "%s/%s", tempdir_path(state), name);
}

static void
open_writer(void **state, struct db *db)
{
    char path[400];

    path_of(state, "test.db", path);
    assert_int_equal(db_open(db, path, DB_WRITER, NULL), STATUS_OK);
}

/* The first column of the one row that `sql` answers with. */
static int64_t
ask(struct db *db, const char *sql)
{
    sqlite3_stmt *statement;
    bool row = false;
    int64_t answer;

    assert_int_equal(db_prepare(db, &statement, sql, NULL), STATUS_OK);
    assert_int_equal(db_step(db, statement, &row, "ask", NULL), STATUS_OK);
    assert_true(row);
    answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

/* R-149 rests on these. */
TEST(a_writer_has_the_settings_that_make_commits_durable, tempdir_setup,
     tempdir_teardown)
{
    struct db db;
    sqlite3_stmt *statement;
    bool row = false;

    open_writer(state, &db);

    assert_int_equal(ask(&db, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(ask(&db, "PRAGMA page_size"), 16384);
    assert_int_equal(ask(&db, "PRAGMA secure_delete"), 0);
    assert_int_equal(ask(&db, "PRAGMA auto_vacuum"), 0);
    assert_int_equal(ask(&db, "PRAGMA wal_autocheckpoint"), 0);
    assert_int_equal(ask(&db, "PRAGMA busy_timeout"), 5000);
    assert_int_equal(db_prepare(&db, &statement, "PRAGMA journal_mode", NULL),
                     STATUS_OK);
    assert_int_equal(db_step(&db, statement, &row, "ask", NULL), STATUS_OK);
    assert_true(slice_is(db_column(statement, 0), "wal"));
    sqlite3_finalize(statement);
    db_close(&db);
}

TEST(a_database_that_cannot_have_a_wal_is_not_opened)
{
    struct problem why = {.text = ""};
    struct db db;

    assert_int_equal(db_open(&db, ":memory:", DB_WRITER, &why), STATUS_IO);

    assert_string_equal(why.text,
                        ":memory:: its journal mode is memory, not wal");
    assert_null(db.handle);
}

TEST(a_file_that_is_no_database_is_not_opened, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;
    char path[400];

    path_of(state, "test.db", path);
    tempdir_write(tempdir_fd(state), "test.db",
                  "<html>this is not what you are looking for</html>");

    assert_int_equal(db_open(&db, path, DB_WRITER, &why), STATUS_IO);

    assert_non_null(strstr(why.text, "not a database"));
    assert_null(db.handle);
}

TEST(a_directory_that_is_not_there_is_named, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;
    char path[400], want[500];

    path_of(state, "none/test.db", path);
    snprintf(want, sizeof(want), "cannot open %s: unable to open database file",
             path);

    assert_int_equal(db_open(&db, path, DB_WRITER, &why), STATUS_IO);

    assert_string_equal(why.text, want);
}

TEST(a_reader_sees_what_is_committed_and_changes_nothing, tempdir_setup,
     tempdir_teardown)
{
    struct db writer, reader;
    char path[400];

    open_writer(state, &writer);
    path_of(state, "test.db", path);
    assert_int_equal(db_exec(&writer, "CREATE TABLE t (n INTEGER)", NULL),
                     STATUS_OK);
    assert_int_equal(db_open(&reader, path, DB_READER, NULL), STATUS_OK);

    assert_int_equal(db_exec(&writer, "BEGIN; INSERT INTO t VALUES (7)", NULL),
                     STATUS_OK);
    assert_int_equal(ask(&reader, "SELECT count(*) FROM t"), 0);
    assert_int_equal(db_exec(&writer, "COMMIT", NULL), STATUS_OK);
    assert_int_equal(ask(&reader, "SELECT count(*) FROM t"), 1);

    assert_int_equal(db_exec(&reader, "DELETE FROM t", NULL), STATUS_IO);
    db_close(&reader);
    db_close(&writer);
}

TEST(a_reader_makes_no_file, tempdir_setup, tempdir_teardown)
{
    struct db db;
    char path[400];

    path_of(state, "test.db", path);

    assert_int_equal(db_open(&db, path, DB_READER, NULL), STATUS_IO);

    assert_no_file(tempdir_fd(state), "test.db");
}

/* Migration */

static const char *const steps[] = {
    "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)",
    "ALTER TABLE t ADD COLUMN name TEXT",
    "INSERT INTO t VALUES (2, 'two')",
    "INSERT INTO nowhere VALUES (3)",
};

TEST(steps_are_run_once_each_in_order, tempdir_setup, tempdir_teardown)
{
    struct db db;

    open_writer(state, &db);

    assert_int_equal(db_migrate(&db, steps, 1, NULL), STATUS_OK);
    assert_int_equal(ask(&db, "PRAGMA user_version"), 1);
    assert_int_equal(db_migrate(&db, steps, 3, NULL), STATUS_OK);
    assert_int_equal(db_migrate(&db, steps, 3, NULL), STATUS_OK);

    assert_int_equal(ask(&db, "PRAGMA user_version"), 3);
    assert_int_equal(ask(&db, "SELECT count(*) FROM t"), 2);
    db_close(&db);
}

TEST(a_migration_that_fails_changes_nothing, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;

    open_writer(state, &db);
    assert_int_equal(db_migrate(&db, steps, 1, NULL), STATUS_OK);

    assert_int_equal(db_migrate(&db, steps, 4, &why), STATUS_IO);

    assert_string_equal(why.text, "cannot run \"INSERT INTO nowhere VALUES "
                                  "(3)\": no such table: nowhere");
    assert_int_equal(ask(&db, "PRAGMA user_version"), 1);
    assert_int_equal(ask(&db, "SELECT count(*) FROM t"), 1);
    assert_int_equal(db_exec(&db, "BEGIN", NULL), STATUS_OK); /* none is open */
    db_close(&db);
}

TEST(a_newer_file_is_refused, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;

    open_writer(state, &db);
    assert_int_equal(db_migrate(&db, steps, 3, NULL), STATUS_OK);

    assert_int_equal(db_migrate(&db, steps, 2, &why), STATUS_INVALID);

    assert_string_equal(why.text, "the database is of version 3, and this "
                                  "program knows versions up to 2");
    assert_int_equal(ask(&db, "PRAGMA user_version"), 3);
    db_close(&db);
}

/* Statements */

TEST(a_statement_is_prepared_once_and_run_often, tempdir_setup,
     tempdir_teardown)
{
    struct db db;
    sqlite3_stmt *insert;

    open_writer(state, &db);
    assert_int_equal(db_exec(&db, "CREATE TABLE t (b BLOB)", NULL), STATUS_OK);
    assert_int_equal(db_prepare(&db, &insert, "INSERT INTO t VALUES (?)", NULL),
                     STATUS_OK);

    for (int i = 0; i < 3; i++) {
        sqlite3_bind_blob(insert, 1, "a\0b", 3, SQLITE_STATIC);
        assert_int_equal(db_run(&db, insert, "insert", NULL), STATUS_OK);
    }

    assert_int_equal(ask(&db, "SELECT count(*) FROM t WHERE b = x'610062'"), 3);
    sqlite3_finalize(insert);
    db_close(&db);
}

TEST(columns_are_lent_as_slices, tempdir_setup, tempdir_teardown)
{
    struct db db;
    sqlite3_stmt *statement;
    bool row = false;

    open_writer(state, &db);
    assert_int_equal(db_prepare(&db, &statement,
                                "SELECT x'610062', 'text', 42, NULL, x''",
                                NULL),
                     STATUS_OK);

    assert_int_equal(db_step(&db, statement, &row, "ask", NULL), STATUS_OK);
    assert_true(row);
    assert_true(slice_equal(db_column(statement, 0), SLICE("a\0b")));
    assert_true(slice_is(db_column(statement, 1), "text"));
    assert_true(slice_is(db_column(statement, 2), "42"));
    assert_int_equal(db_column(statement, 3).size, 0);
    assert_int_equal(db_column(statement, 4).size, 0);

    assert_int_equal(db_step(&db, statement, &row, "ask", NULL), STATUS_OK);
    assert_false(row);
    sqlite3_finalize(statement);
    db_close(&db);
}

TEST(a_refused_row_says_why_and_the_statement_goes_on, tempdir_setup,
     tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;
    sqlite3_stmt *insert;

    open_writer(state, &db);
    assert_int_equal(db_exec(&db, "CREATE TABLE t (n UNIQUE)", NULL),
                     STATUS_OK);
    assert_int_equal(db_prepare(&db, &insert, "INSERT INTO t VALUES (?)", NULL),
                     STATUS_OK);
    sqlite3_bind_int(insert, 1, 7);
    assert_int_equal(db_run(&db, insert, "insert", NULL), STATUS_OK);

    assert_int_equal(db_run(&db, insert, "insert", &why), STATUS_IO);
    assert_string_equal(why.text,
                        "cannot insert: UNIQUE constraint failed: t.n");

    sqlite3_bind_int(insert, 1, 8);
    assert_int_equal(db_run(&db, insert, "insert", NULL), STATUS_OK);
    sqlite3_finalize(insert);
    db_close(&db);
}

TEST(a_row_where_none_is_expected_is_an_error, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;
    sqlite3_stmt *statement;

    open_writer(state, &db);
    assert_int_equal(db_prepare(&db, &statement, "SELECT 1", NULL), STATUS_OK);

    assert_int_equal(db_run(&db, statement, "count", &why), STATUS_IO);

    assert_string_equal(why.text, "cannot count: a row came back");
    sqlite3_finalize(statement);
    db_close(&db);
}

/* A full disk is a matter of waiting, so the post is told to come again. */
TEST(a_full_database_is_busy_not_broken, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;

    open_writer(state, &db);
    assert_int_equal(db_exec(&db, "CREATE TABLE t (b BLOB)", NULL), STATUS_OK);
    assert_int_equal(ask(&db, "PRAGMA max_page_count=3"), 3);

    assert_int_equal(
        db_exec(&db, "INSERT INTO t VALUES (zeroblob(1000000))", &why),
        STATUS_BUSY);

    assert_non_null(strstr(why.text, "database or disk is full"));
    db_close(&db);
}

TEST(results_of_sqlite_have_a_status, tempdir_setup, tempdir_teardown)
{
    struct problem why = {.text = ""};
    struct db db;

    open_writer(state, &db);

    assert_int_equal(db_problem(&db, SQLITE_BUSY_SNAPSHOT, "x", NULL),
                     STATUS_BUSY);
    assert_int_equal(db_problem(&db, SQLITE_LOCKED, "x", NULL), STATUS_BUSY);
    assert_int_equal(db_problem(&db, SQLITE_NOMEM, "x", NULL), STATUS_MEMORY);
    assert_int_equal(db_problem(&db, SQLITE_IOERR_NOMEM, "x", NULL),
                     STATUS_MEMORY);
    assert_int_equal(db_problem(&db, SQLITE_IOERR_FSYNC, "commit", &why),
                     STATUS_IO);
    assert_string_equal(why.text, "cannot commit: disk I/O error");
    db_close(&db);
}

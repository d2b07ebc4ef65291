#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/store/store.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static enum status
check(void **state, struct problem *why)
{
    return store_check(tempdir_path(state), why);
}

/* Runs SQL in tidings.db, as a program that need not be ours. */
static void
run(void **state, const char *sql)
{
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", tempdir_path(state));
    assert_int_equal(db_open(&db, path, DB_WRITER, NULL), STATUS_OK);
    assert_int_equal(db_exec(&db, sql, NULL), STATUS_OK);
    db_close(&db);
}

static void
assert_refused_for(void **state, const char *reason)
{
    struct problem why = {""};

    assert_int_equal(check(state, &why), STATUS_IO);
    assert_non_null(strstr(why.text, tempdir_path(state)));
    assert_non_null(strstr(why.text, "tidings.db"));
    assert_non_null(strstr(why.text, reason));
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(passes_a_directory_without_a_database)
{
    assert_int_equal(check(state, NULL), STATUS_OK);
    tempdir_write(tempdir_fd(state), "tidings.db", "");
    assert_int_equal(check(state, NULL), STATUS_OK);
    tempdir_write(tempdir_fd(state), "tidings.db-wal", "");
    assert_int_equal(check(state, NULL), STATUS_OK);
    assert_file(tempdir_fd(state), "tidings.db", "");
}

TEST(passes_what_the_store_has_made)
{
    struct engine *engine;
    atomic_size_t forms = 0;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_open(&engine, tempdir_path(state), &forms, NULL),
                         STATUS_OK);
        engine->ops->close(engine);
        assert_int_equal(check(state, NULL), STATUS_OK);
    }
}

/* A first start may end between any two steps: tables come in one commit. */
TEST(passes_a_database_without_tables)
{
    run(state, "PRAGMA user_version=0");
    assert_int_equal(check(state, NULL), STATUS_OK);
}

/* a new database would number lists from 1 again. */
TEST(refuses_a_missing_database_where_there_was_one)
{
    tempdir_write(tempdir_fd(state), "tidings.db-wal", "commits");
    assert_refused_for(state, "-wal is there");
    assert_file(tempdir_fd(state), "tidings.db-wal", "commits");
    assert_int_equal(unlinkat(tempdir_fd(state), "tidings.db-wal", 0), 0);

    assert_int_equal(mkdirat(tempdir_fd(state), "sets", 0755), 0);
    assert_refused_for(state, "lists in");
    tempdir_write(tempdir_fd(state), "tidings.db", "");
    assert_refused_for(state, "lists in");
}

TEST(refuses_what_is_not_ours)
{
    tempdir_write(tempdir_fd(state), "tidings.db", "a text, not so long");
    assert_refused_for(state, "not a database");
    assert_file(tempdir_fd(state), "tidings.db", "a text, not so long");
    assert_int_equal(unlinkat(tempdir_fd(state), "tidings.db", 0), 0);

    run(state, "CREATE TABLE sets(a)");
    assert_refused_for(state, "another program");
    run(state, "PRAGMA user_version=1");
    assert_refused_for(state, "another program");
    run(state, "CREATE TABLE batches(a); CREATE TABLE lists(a)");
    run(state, "PRAGMA user_version=1001");
    assert_refused_for(state, "version 1001");
}

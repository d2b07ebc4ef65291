#include "broker/log/store_check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/db.h"
#include "broker/log/store.h"
#include "tests/support/tempdir.h"

/* The check of tidings.db in the test's directory. */
static enum status
check(void **state, struct problem *why)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", tempdir_path(state));
    return store_check(tempdir_path(state), path, why);
}

/* Runs SQL in it, as a program that need not be ours. */
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

static void
passes_a_directory_without_a_database(void **state)
{
    assert_int_equal(check(state, NULL), STATUS_OK);
    tempdir_write(tempdir_fd(state), "tidings.db", "");
    assert_int_equal(check(state, NULL), STATUS_OK);
    tempdir_write(tempdir_fd(state), "tidings.db-wal", "");
    assert_int_equal(check(state, NULL), STATUS_OK);
    assert_file(tempdir_fd(state), "tidings.db", "");
}

static void
passes_what_the_store_has_made(void **state)
{
    struct engine *engine;
    atomic_size_t forms = 0;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_open(&engine, tempdir_path(state), &forms, NULL),
                         STATUS_OK);
        assert_int_equal(check(state, NULL), STATUS_OK); /* also while open */
        engine->ops->close(engine);
        assert_int_equal(check(state, NULL), STATUS_OK);
    }
}

/* A first start may end between any two steps: tables come in one commit. */
static void
passes_a_database_without_tables(void **state)
{
    run(state, "PRAGMA user_version=0");
    assert_int_equal(check(state, NULL), STATUS_OK);
}

/* a new database would number lists from 1 again. */
static void
refuses_a_missing_database_where_there_was_one(void **state)
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

static void
refuses_what_is_not_ours(void **state)
{
    tempdir_write(tempdir_fd(state), "tidings.db", "a text, not so long");
    assert_refused_for(state, "not a database");
    assert_file(tempdir_fd(state), "tidings.db", "a text, not so long");
    assert_int_equal(unlinkat(tempdir_fd(state), "tidings.db", 0), 0);

    run(state, "CREATE TABLE sets(a)");
    assert_refused_for(state, "another program");
    run(state, "PRAGMA user_version=1");
    assert_refused_for(state, "another program");
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(passes_a_directory_without_a_database),
        TEST(passes_what_the_store_has_made),
        TEST(passes_a_database_without_tables),
        TEST(refuses_a_missing_database_where_there_was_one),
        TEST(refuses_what_is_not_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

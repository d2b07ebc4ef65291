/*
 * place_test.c - positions kept in a file, and in a database of the caller's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "client/tidings.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SEQ  "0123456789abcdef-17"
#define TIME "@2026-11-20T21:00:00.000000Z+3"

struct stage {
    struct tempdir dir;
    struct td_client *client;
    struct sqlite3 *db;
    char path[300];
    char position[TD_POSITION_SIZE];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdir_open(&s->dir);
    s->client = td_open();
    assert_non_null(s->client);
    assert_int_equal(sqlite3_open(":memory:", &s->db), SQLITE_OK);
    snprintf(s->path, sizeof(s->path), "%s/position", s->dir.path);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    sqlite3_close(s->db);
    td_close(s->client);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

FIXTURE(set_stage, clear_stage);

/* the file has the stored position, and no temporary file is left. */
TEST(a_file_keeps_a_position)
{
    struct stage *s = *state;
    static const char *const positions[] = {SEQ, TIME, "0"};

    strcpy(s->position, "x");
    assert_int_equal(td_position_read(s->client, s->path, s->position), TD_OK);
    assert_string_equal(s->position, "");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(td_position_write(s->client, s->path, positions[i]),
                         TD_OK);
        assert_int_equal(td_position_read(s->client, s->path, s->position),
                         TD_OK);
        assert_string_equal(s->position, positions[i]);
    }
    assert_file(s->dir.fd, "position", "0\n");
    assert_no_file(s->dir.fd, "position.new");
}

/* Other text is neither read as a position nor written as one. */
TEST(a_file_with_something_else_is_no_position)
{
    struct stage *s = *state;
    static const char *const damaged[] = {"", "\n", "soon\n", SEQ " \n",
                                          SEQ "\n" SEQ "\n"};
    char longer[TD_POSITION_SIZE + 1];

    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        tempdir_write(s->dir.fd, "position", damaged[i]);
        assert_int_equal(td_position_read(s->client, s->path, s->position),
                         TD_INVALID);
        assert_string_equal(s->position, "");
        assert_non_null(
            strstr(td_problem(s->client), "position holds no position"));
    }
    memset(longer, '1', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(td_position_write(s->client, s->path, "soon"), TD_INVALID);
    assert_int_equal(td_position_write(s->client, s->path, ""), TD_INVALID);
    assert_int_equal(td_position_write(s->client, s->path, longer), TD_INVALID);
    assert_file(s->dir.fd, "position", damaged[4]);
}

/* A write that fails leaves the old position, and says what failed. */
TEST(a_file_that_cannot_be_written_stays_as_it_was)
{
    struct stage *s = *state;
    char elsewhere[400];

    assert_int_equal(td_position_write(s->client, s->path, SEQ), TD_OK);
    assert_int_equal(mkdirat(s->dir.fd, "position.new", 0755), 0);
    assert_int_equal(td_position_write(s->client, s->path, TIME), TD_IO);
    assert_non_null(strstr(td_problem(s->client), strerror(EISDIR)));
    assert_file(s->dir.fd, "position", SEQ "\n");
    assert_int_equal(unlinkat(s->dir.fd, "position.new", AT_REMOVEDIR), 0);

    snprintf(elsewhere, sizeof(elsewhere), "%s/none/position", s->dir.path);
    assert_int_equal(td_position_write(s->client, elsewhere, SEQ), TD_IO);
    assert_non_null(strstr(td_problem(s->client), strerror(ENOENT)));
    assert_int_equal(td_position_read(s->client, s->dir.path, s->position),
                     TD_IO);
    assert_non_null(strstr(td_problem(s->client), strerror(EISDIR)));
}

static void
run(struct stage *s, const char *sql)
{
    assert_int_equal(sqlite3_exec(s->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* In the caller's transaction: the position is stored with the caller's other
 * changes, or not at all. */
TEST(a_database_keeps_positions_with_the_callers_work)
{
    struct stage *s = *state;

    assert_int_equal(td_position_load(s->db, "a", s->position), TD_OK);
    assert_string_equal(s->position, "");
    assert_int_equal(td_position_save(s->db, "a", SEQ), TD_OK);
    assert_int_equal(td_position_save(s->db, "b", TIME), TD_OK);
    run(s, "BEGIN; CREATE TABLE work(x); INSERT INTO work VALUES(1);");
    assert_int_equal(td_position_save(s->db, "a", "0"), TD_OK);
    run(s, "ROLLBACK;");
    assert_int_equal(td_position_load(s->db, "a", s->position), TD_OK);
    assert_string_equal(s->position, SEQ);
    assert_int_equal(td_position_load(s->db, "b", s->position), TD_OK);
    assert_string_equal(s->position, TIME);

    run(s, "BEGIN;");
    assert_int_equal(td_position_save(s->db, "a", TIME), TD_OK);
    run(s, "COMMIT;");
    assert_int_equal(td_position_load(s->db, "a", s->position), TD_OK);
    assert_string_equal(s->position, TIME);
    assert_int_equal(td_position_load(s->db, "'; --", s->position), TD_OK);
    assert_string_equal(s->position, "");
}

TEST(a_database_says_what_is_wrong)
{
    struct stage *s = *state;

    assert_int_equal(td_position_save(s->db, "a", "soon"), TD_INVALID);
    run(s, "CREATE TABLE td_position(other);");
    assert_int_equal(td_position_save(s->db, "a", SEQ), TD_IO);
    assert_int_equal(td_position_load(s->db, "a", s->position), TD_IO);
    assert_non_null(strstr(sqlite3_errmsg(s->db), "position"));
    run(s, "DROP TABLE td_position;"
           "CREATE TABLE td_position(name, position);"
           "INSERT INTO td_position VALUES('a', 'soon');");
    assert_int_equal(td_position_load(s->db, "a", s->position), TD_INVALID);
}

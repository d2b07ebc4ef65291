/*
 * relay_once_test.c - a relayed post is in the target once, whatever the relay
 * could note of it, and whenever.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/support/command.h"
#include "tests/support/faults.h"
#include "tests/support/relays.h"
#include "tests/support/source.h"
#include "tests/test.h"

static void
run_sql(const char *file, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

FIXTURE(relays_setup, relays_teardown);

/* A post whose answer was lost more than a day ago is looked for in the target,
 * which has forgotten its key. */
TEST(an_old_post_is_looked_for_in_the_target)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];

    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    assert_int_equal(relays_run(r, &command), 0);
    relays_await(&s->brokers[1], 10);

    /* As it was after the post was sent and before it was answered, but with a
     * key that the target does not know. */
    run_sql(r->state, "CREATE TABLE kept AS SELECT * FROM relay;"
                      "UPDATE relay SET target_position = "
                      "substr(target_position, 1, 17) || '0', position = '';");
    source_post(&s->brokers[1].http, LISTS_SET, 100, 5, 0);
    {
        struct buf body;
        sqlite3 *db;
        sqlite3_stmt *insert;
        const char *text, *begin, *end;

        text = relays_changes(&s->brokers[1], "after=0").data;
        begin = strstr(text, "\"changes\":[") + 10;
        end = strstr(begin, "http://example.com/r/100");
        assert_non_null(end);
        while (*end != '{')
            end--;
        buf_init(&body, 1 << 20);
        buf_add(&body, begin, (size_t)(end - begin) - 1);
        BUF_ADD(&body, "]\n");
        assert_int_equal(sqlite3_open(r->state, &db), SQLITE_OK);
        assert_int_equal(
            sqlite3_prepare_v2(db,
                               "INSERT INTO post SELECT "
                               "'0123456789abcdef0123456789abcdef', position,"
                               " 1000, 10, ?1 FROM kept",
                               -1, &insert, NULL),
            SQLITE_OK);
        sqlite3_bind_blob(insert, 1, body.data, (int)body.size, SQLITE_STATIC);
        assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
        sqlite3_finalize(insert);
        sqlite3_close(db);
        buf_fini(&body);
    }
    assert_int_equal(relays_run(r, &command), 0);
    assert_non_null(strstr(command.err_text, "looking for it"));
    relays_await(&s->brokers[1], 15); /* not 25 */

    source_post(&s->brokers[0].http, LISTS_SET, 11, 1, 0);
    assert_int_equal(relays_run(r, &command), 0);
    relays_await(&s->brokers[1], 16);
}

/* How many posts the state has that were not answered. */
static int
n_unanswered(const struct relay *r)
{
    sqlite3_stmt *s;
    sqlite3 *db;
    int n;

    assert_int_equal(sqlite3_open(r->state, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM post", -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

/* the relay is killed at each of its writes to the state, one after the
 * other, also where the target has a post and that is not noted: it is the same
 * post again, which is kept once. */
TEST(a_post_that_was_not_noted_is_not_kept_twice)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];
    struct faults faults;
    unsigned n = 10, n_between = 0;
    int n_writes = 0;

    source_post(&s->brokers[0].http, LISTS_SET, 1, n, 0);
    assert_int_equal(relays_run(r, &command), 0);
    faults_open(&faults);
    for (;; n_writes++) {
        int end;

        source_post(&s->brokers[0].http, LISTS_SET, ++n, 1, 0);
        faults_arm_once(&faults, PLAN_WRITE, "/relay", n_writes, PLAN_KILL);
        end = relays_run(r, &command);
        if (faults_disarm(&faults) == 0) {
            assert_int_equal(end, 0);
            break;
        }
        assert_int_equal(end, 128 + SIGKILL);
        n_between += relays_last(&s->brokers[1]) == n && n_unanswered(r) == 1;
        assert_int_equal(relays_run(r, &command), 0);
        relays_await(&s->brokers[1], n);
    }
    faults_close(&faults);
    assert_true(n_between > 0);
    relays_assert_all(&s->brokers[1], n);
}

/* The same where the relay lives on to say so. */
TEST(a_disk_that_fails_behind_a_post_does_not_double_it)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];
    struct faults faults;

    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    assert_int_equal(relays_run(r, &command), 0);
    source_post(&s->brokers[0].http, LISTS_SET, 11, 5, 0);
    faults_open(&faults);
    /* Before it: the log's header, and what is sealed. */
    faults_arm(&faults, PLAN_SYNC, "/relay-wal", 2, EIO);
    assert_int_equal(relays_run(r, &command), 1);
    assert_string_equal(command.err_text,
                        "tidings: the state of this relay: disk I/O error\n");
    assert_true(faults_disarm(&faults) > 0);
    faults_close(&faults);
    relays_await(&s->brokers[1], 15);

    assert_int_equal(relays_run(r, &command), 0);
    relays_assert_all(&s->brokers[1], 15);
}

/* A disk that is full: nothing is sent that is not in the state. */
TEST(posts_nothing_that_it_cannot_note)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];
    struct faults faults;

    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    assert_int_equal(relays_run(r, &command), 0);
    source_post(&s->brokers[0].http, LISTS_SET, 11, 5, 0);
    faults_open(&faults);
    faults_arm(&faults, PLAN_WRITE, "/relay-wal", 0, ENOSPC);
    assert_int_equal(relays_run(r, &command), 1);
    assert_string_equal(command.err_text,
                        "tidings: the state of this relay: database or disk is "
                        "full\n");
    assert_true(faults_disarm(&faults) > 0);
    faults_close(&faults);
    relays_await(&s->brokers[1], 10);

    assert_int_equal(relays_run(r, &command), 0);
    relays_assert_all(&s->brokers[1], 15);
}

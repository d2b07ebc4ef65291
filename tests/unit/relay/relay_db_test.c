/*
 * relay_db_test.c - how far a relay has come outlives it.
 */
#include "client/relay/relay_db.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <sqlite3.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

static char path[300];

static struct relay_state *
open_state(void **state)
{
    struct tempdir *dir = *state;
    struct relay_state *s;
    struct problem why;

    snprintf(path, sizeof(path), "%s/state", dir->path);
    s = relay_open(path, "http://a/sets/x", "http://b/sets/x", &why);
    if (!s)
        fail_msg("%s", why.text);
    return s;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* The state returns a sealed post, byte for byte, until it is noted as
 * posted. */
TEST(a_sealed_post_outlives_the_process)
{
    struct relay_state *s = open_state(state);
    struct relay_post post, again;
    bool is_there = true;

    assert_string_equal(relay_position(s), "");
    assert_true(relay_unfinished(s, &post, &is_there));
    assert_false(is_there);
    assert_true(relay_note_target(s, "t-7"));
    assert_true(relay_seal(s, "[1,2]\n", 6, 2, "a-9"));
    assert_true(relay_unfinished(s, &post, &is_there));
    assert_true(is_there);
    relay_close(s);

    s = open_state(state);
    assert_string_equal(relay_position(s), "");
    assert_string_equal(relay_target(s), "t-7");
    assert_true(relay_unfinished(s, &again, &is_there));
    assert_true(is_there);
    assert_string_equal(again.key, post.key);
    assert_int_equal(strlen(again.key), 32);
    assert_string_equal(again.position, "a-9");
    assert_int_equal(again.n, 2);
    assert_int_equal(again.made_s, post.made_s);
    assert_int_equal(again.size, 6);
    assert_memory_equal(again.body, "[1,2]\n", 6);
    assert_true(relay_posted(s, &again, "t-12"));
    free(post.body);
    free(again.body);
    relay_close(s);

    s = open_state(state);
    assert_string_equal(relay_position(s), "a-9");
    assert_string_equal(relay_target(s), "t-12");
    assert_true(relay_unfinished(s, &post, &is_there));
    assert_false(is_there);
    assert_true(relay_note(s, "a-11"));
    relay_close(s);
    s = open_state(state);
    assert_string_equal(relay_position(s), "a-11");
    relay_close(s);
}

TEST(a_state_is_one_relay_s_and_one_process_s)
{
    struct relay_state *s = open_state(state);
    struct problem why;

    assert_null(relay_open(path, "http://a/sets/x", "http://b/sets/x", &why));
    assert_non_null(strstr(why.text, "another process uses it"));
    relay_close(s);
    assert_null(relay_open(path, "http://a/sets/x", "http://c/sets/x", &why));
    assert_non_null(strstr(why.text, "of another relay: http://a/sets/x to "
                                     "http://b/sets/x"));
    assert_null(relay_open("/nowhere/at/all", "a", "b", &why));
    assert_non_null(strstr(why.text, "unable to open"));
}

static void
assert_why(const char *why, const char *reason)
{
    char want[600];

    snprintf(want, sizeof(want), "the state of this relay %s: %s", path,
             reason);
    assert_string_equal(why, want);
}

/* Changes the file behind its back. */
static void
damage(const char *how)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, how, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define LONG "much longer than any position that we have noted, by some bytes"

TEST(a_damaged_state_is_told)
{
    static const char *const damages[] = {
        "UPDATE post SET n = -1",
        "UPDATE post SET n = 0",
        "UPDATE post SET n = 7",
        "UPDATE post SET body = ''",
        "UPDATE post SET key = 'much longer than any key that we have made'",
        "UPDATE post SET key = 'k', position = '" LONG LONG LONG "'",
    };
    static const char *const rows[] = {
        "UPDATE relay SET source = NULL",
        "UPDATE relay SET target = NULL",
        "UPDATE relay SET position = '" LONG LONG LONG "'",
        "UPDATE relay SET target_position = '" LONG LONG LONG "'",
    };
    struct relay_state *s = open_state(state);
    struct relay_post post;
    struct problem why;
    bool is_there = true;

    assert_true(relay_seal(s, "[1,2]\n", 6, 2, "a-9"));
    relay_close(s);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        damage(damages[i]);
        s = open_state(state);
        assert_false(relay_unfinished(s, &post, &is_there));
        assert_false(is_there);
        assert_null(post.body);
        assert_why(relay_trouble(s), "the file is damaged");
        relay_close(s);
        damage("UPDATE post SET n = 2, body = '[1,2]'");
    }

    damage("ALTER TABLE relay RENAME TO was; CREATE TABLE relay"
           " (source, target, position, target_position, owns);"
           "INSERT INTO relay SELECT * FROM was");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        damage(rows[i]);
        assert_null(
            relay_open(path, "http://a/sets/x", "http://b/sets/x", &why));
        assert_why(why.text, "the file is damaged");
        damage("DELETE FROM relay; INSERT INTO relay SELECT * FROM was");
    }
    relay_close(open_state(state));
}

/* The disk is full: nothing counts as noted that is not in the file. */
TEST(what_is_not_noted_does_not_count)
{
    struct rlimit none, all;
    struct relay_state *s = open_state(state);
    struct relay_post post;
    bool is_there;

    assert_true(relay_seal(s, "[1,2]\n", 6, 2, "a-9"));
    assert_true(relay_unfinished(s, &post, &is_there));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    none = (struct rlimit){0, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_false(relay_note(s, "a-1"));
    assert_false(relay_note_target(s, "t-1"));
    assert_false(relay_own(s, true));
    assert_false(relay_posted(s, &post, "t-2"));
    assert_false(relay_seal(s, "[1]", 3, 1, "a-10"));
    assert_non_null(strstr(relay_trouble(s), path));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_string_equal(relay_position(s), "");
    assert_string_equal(relay_target(s), "");
    assert_false(relay_owns(s));
    assert_true(relay_posted(s, &post, "t-2"));
    assert_string_equal(relay_position(s), "a-9");
    free(post.body);
    relay_close(s);
}

/* A relay does not own its target unless somebody said so; a state of the first
 * version never did. */
TEST(a_target_is_owned_from_then_on)
{
    struct relay_state *s = open_state(state);
    struct problem why;

    assert_false(relay_owns(s));
    for (int i = 0; i < 2; i++) {
        assert_true(relay_own(s, true));
        assert_true(relay_owns(s));
    }
    assert_true(relay_own(s, false));
    relay_close(s);
    s = open_state(state);
    assert_false(relay_owns(s));
    assert_true(relay_own(s, true));
    relay_close(s);
    s = open_state(state);
    assert_true(relay_owns(s));
    relay_close(s);

    damage("ALTER TABLE relay DROP COLUMN owns; PRAGMA user_version = 1;"
           "UPDATE relay SET position = 'a-9'");
    for (int i = 0; i < 2; i++) {
        s = open_state(state);
        assert_false(relay_owns(s));
        assert_string_equal(relay_position(s), "a-9");
        relay_close(s);
    }

    damage("PRAGMA user_version = 3");
    assert_null(relay_open(path, "http://a/sets/x", "http://b/sets/x", &why));
    assert_why(why.text, "the database is of version 3, and this program knows "
                         "versions up to 2");
}

/*
 * harvest_db_test.c - how far a harvest has come, and what its sources have,
 * outlives it.
 */
#include "client/harvest/harvest_db.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <sqlite3.h>

#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SET    "http://b/sets/x"
#define SOURCE "http://a/sets/x"

static char path[300];

static struct harvest_db *
open_state(void **state)
{
    struct tempdir *dir = *state;
    static struct problem why;
    static struct harvest_db h;

    problem_clear(&why);
    snprintf(path, sizeof(path), "%s/state", dir->path);
    if (!harvest_db_open(&h, path, SET, false, &why))
        fail_msg("%s", why.text);
    return &h;
}

static bool
opens(const char *file, const char *target, struct problem *why)
{
    struct harvest_db h;
    bool is_open = harvest_db_open(&h, file, target, false, why);

    harvest_db_close(&h);
    return is_open;
}

static struct harvest_part
part_of(struct harvest_db *h, const char *url)
{
    struct harvest_part part;

    assert_true(harvest_db_part(h, SOURCE, url, &part));
    return part;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* the state returns a sealed post, byte for byte, until it is noted as
 * posted; and the part is behind it. */
TEST(a_sealed_post_outlives_the_process)
{
    struct harvest_db *h = open_state(state);
    struct harvest_part part = part_of(h, SOURCE);
    struct harvest_post post, again;
    bool is_there = true;

    assert_string_equal(part.position, "");
    assert_true(harvest_db_unfinished(h, &post, &is_there));
    assert_false(is_there);
    assert_true(harvest_db_end_adoption(h, "t-7"));
    assert_true(harvest_db_seal(h, &part, SLICE("[1,2]\n"), 2, "a-9"));
    assert_true(harvest_db_unfinished(h, &post, &is_there));
    assert_true(is_there);
    harvest_db_close(h);

    h = open_state(state);
    part = part_of(h, SOURCE);
    assert_string_equal(part.position, "a-9");
    assert_string_equal(h->target, "t-7");
    assert_false(h->is_new);
    assert_true(harvest_db_unfinished(h, &again, &is_there));
    assert_true(is_there);
    assert_string_equal(again.key, post.key);
    assert_int_equal(strlen(again.key), 32);
    assert_string_equal(again.before, "");
    assert_int_equal(again.n, 2);
    assert_int_equal(again.made_s, post.made_s);
    assert_int_equal(again.size, 6);
    assert_memory_equal(again.body, "[1,2]\n", 6);
    assert_true(harvest_db_posted(h, "t-12"));
    free(post.body);
    free(again.body);
    harvest_db_close(h);

    h = open_state(state);
    assert_string_equal(h->target, "t-12");
    assert_true(harvest_db_unfinished(h, &post, &is_there));
    assert_false(is_there);
    snprintf(part.doubt, sizeof(part.doubt), "a hole");
    part.complete_us = 5;
    assert_true(harvest_db_note_part(h, &part));
    harvest_db_close(h);
    h = open_state(state);
    assert_string_equal(part_of(h, SOURCE).doubt, "a hole");
    assert_int_equal(part_of(h, SOURCE).complete_us, 5);
    harvest_db_close(h);
}

TEST(a_state_is_one_set_s_and_one_process_s)
{
    struct harvest_db *h = open_state(state);
    struct problem why;

    assert_false(opens(path, SET, &why));
    assert_non_null(strstr(why.text, "another process uses it"));
    harvest_db_close(h);
    assert_false(opens(path, "http://c/sets/x", &why));
    assert_non_null(strstr(why.text, "of another set: " SET));
    assert_false(opens("/proc/nowhere/at/all", SET, &why));
    assert_non_null(strstr(why.text, "unable to open"));
}

/* Resources */

static const struct survey_resource none = {
    DATETIME_NONE, {NULL, 0}, LENGTH_NONE};

static struct survey_resource
version_of(int64_t lastmod_us, const char *hash, uint64_t length)
{
    return (struct survey_resource){lastmod_us, slice_of(hash), length};
}

static struct harvest_known
look(struct harvest_db *h, int64_t part, const char *loc,
     const struct survey_resource *version)
{
    const struct harvest_resource r = {.loc = slice_of(loc),
                                       .version = *version};
    struct harvest_known known;

    assert_true(harvest_db_look(h, part, &r, &known));
    return known;
}

static void
keep(struct harvest_db *h, int64_t part, const char *loc,
     const struct survey_resource *version, int64_t changed_us)
{
    const struct harvest_resource r = {.loc = slice_of(loc),
                                       .version = *version};

    assert_true(harvest_db_keep(h, part, &r, changed_us));
}

/* As far as both say what the version is. */
TEST(versions_are_compared)
{
    struct harvest_db *h = open_state(state);

    const struct {
        struct survey_resource had, now;
        bool is_same, is_like;
    } rows[] = {
        {none, none, true, true},
        {version_of(5, "", LENGTH_NONE), version_of(5, "", LENGTH_NONE), true,
         true},
        {version_of(5, "", LENGTH_NONE), version_of(6, "", LENGTH_NONE), false,
         false},
        {version_of(5, "md5:1", LENGTH_NONE), version_of(5, "", 3), true, true},
        {version_of(5, "md5:1", 3), version_of(5, "md5:2", 3), false, false},
        {version_of(5, "md5:1", 3), version_of(5, "md5:1", 4), false, false},
        {version_of(5, "", LENGTH_NONE), version_of(DATETIME_NONE, "", 3),
         false, true},
        {version_of(5, "", LENGTH_NONE), none, false, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        keep(h, 1, "u:1", &rows[i].had, 1);
        assert_int_equal(look(h, 1, "u:1", &rows[i].now).is_same,
                         rows[i].is_same);
        assert_int_equal(look(h, 1, "u:1", &rows[i].now).is_like,
                         rows[i].is_like);
    }
    harvest_db_close(h);
}

/* Rows that no post and no note has made durable are dropped with the process.
 */
TEST(a_resource_is_that_of_its_parts)
{
    struct harvest_db *h = open_state(state);
    struct harvest_part one = part_of(h, SOURCE), two = part_of(h, "http://c/");
    struct harvest_known known;
    uint64_t n;

    assert_int_equal(one.id, 1);
    assert_int_equal(two.id, 2);
    keep(h, 0, "u:1", &none, DATETIME_NONE);
    known = look(h, 1, "u:1", &none);
    assert_true(known.is_known && known.is_same_there);
    assert_false(known.is_there || known.is_elsewhere);
    keep(h, 1, "u:1", &none, 7);
    known = look(h, 1, "u:1", &none);
    assert_true(known.is_there && known.is_same);
    assert_true(harvest_db_count(h, 0, &n));
    assert_int_equal(n, 0);
    assert_int_equal(known.changed_us, 7);
    known = look(h, 2, "u:1", &none);
    assert_true(known.is_elsewhere && known.is_same_there);
    assert_false(known.is_there);
    assert_true(harvest_db_note_part(h, &one));
    assert_true(harvest_db_remove(h, 1, slice_of("u:1"), 9));
    known = look(h, 1, "u:1", &none);
    assert_false(known.is_there);
    assert_int_equal(known.changed_us, 9);
    assert_false(look(h, 2, "u:1", &none).is_elsewhere);
    harvest_db_close(h);

    h = open_state(state);
    assert_true(look(h, 1, "u:1", &none).is_there);
    harvest_db_close(h);
}

/* What a list lacks is held back until it is removed or comes again; what has
 * changed after the list was made is left alone. */
TEST(a_list_holds_back_what_it_lacks)
{
    struct harvest_db *h = open_state(state);
    struct harvest_part part = part_of(h, SOURCE);
    const struct harvest_resource deferred = {SLICE("u:1"), SLICE("{}"),
                                              version_of(5, "", LENGTH_NONE)};
    struct harvest_resource next;
    uint64_t n;
    bool is_empty;

    for (char i = '1'; i <= '4'; i++) {
        char name[] = {'u', ':', i, '\0'};

        keep(h, 1, name, &none, i == '4' ? 100 : DATETIME_NONE);
    }
    assert_true(harvest_db_begin_list(h, 1, &n));
    assert_int_equal(n, 4);
    assert_true(harvest_db_list(h, 1, slice_of("u:1"), true));
    assert_true(harvest_db_defer(h, 1, &deferred));
    assert_true(harvest_db_next(h, QUEUE_DEFERRED, 1, &next));
    assert_true(slice_is(next.loc, "u:1") && slice_is(next.entry, "{}"));
    assert_int_equal(next.version.lastmod_us, 5);
    assert_int_equal(next.version.length, LENGTH_NONE);
    assert_true(harvest_db_next(h, QUEUE_DEFERRED, 1, &next));
    assert_int_equal(next.loc.size, 0);
    assert_true(harvest_db_end_list(h, 1, 50, &n, &is_empty));
    assert_int_equal(n, 2);
    assert_false(is_empty);
    assert_true(harvest_db_note_part(h, &part));
    harvest_db_close(h);

    h = open_state(state);
    keep(h, 1, "u:2", &none, DATETIME_NONE);
    assert_true(harvest_db_waiting(h, QUEUE_HELD, 1, &n));
    assert_int_equal(n, 1);
    assert_true(harvest_db_next(h, QUEUE_HELD, 1, &next));
    assert_true(slice_is(next.loc, "u:3"));
    assert_true(harvest_db_remove(h, 1, next.loc, DATETIME_NONE));
    assert_true(harvest_db_next(h, QUEUE_HELD, 1, &next));
    assert_int_equal(next.loc.size, 0);
    harvest_db_close(h);
}

/* Others have posted: what differs from the part's version is due. */
TEST(what_others_did_is_due)
{
    struct harvest_db *h = open_state(state);
    const struct survey_resource had = version_of(5, "md5:1", 3);
    const struct survey_resource other = version_of(6, "", LENGTH_NONE);
    bool is_due;

    for (char i = '1'; i <= '3'; i++) {
        char name[] = {'u', ':', i, '\0'};

        keep(h, 1, name, &had, 1);
    }
    assert_true(harvest_db_disturb(h, slice_of("u:1"), &had));
    assert_true(harvest_db_disturb(h, slice_of("u:4"), &had));
    assert_true(harvest_db_end_disturbance(h, "t-1"));
    assert_true(harvest_db_is_due(h, 1, &is_due));
    assert_false(is_due);
    assert_true(harvest_db_disturb(h, slice_of("u:2"), NULL));
    assert_true(harvest_db_disturb(h, slice_of("u:3"), &other));
    assert_true(harvest_db_end_disturbance(h, "t-1"));
    assert_true(look(h, 1, "u:1", &had).is_same);
    assert_false(look(h, 1, "u:2", &had).is_same);
    assert_false(look(h, 1, "u:3", &had).is_same);
    assert_true(harvest_db_is_due(h, 1, &is_due));
    assert_true(is_due);
    harvest_db_close(h);
}

/* The key of a sealed post, which is taken for posted. `target`: the set's
 * position after it. */
static void
seal_key(struct harvest_db *h, const char *body, const char *target,
         char key[HARVEST_KEY_SIZE])
{
    struct harvest_part part = part_of(h, SOURCE);
    struct harvest_post post;
    bool is_there;

    assert_true(harvest_db_seal(h, &part, slice_of(body), 1, "a-1"));
    assert_true(harvest_db_unfinished(h, &post, &is_there));
    memcpy(key, post.key, HARVEST_KEY_SIZE);
    free(post.body);
    assert_true(harvest_db_posted(h, target));
}

/* Two states that make the same posts to a set as it was left make them with the
 * same keys; else no key comes twice. */
TEST(the_same_posts_have_the_same_keys)
{
    static const struct {
        const char *body, *target;
        int same; /* an earlier row of the other state; -1: none */
    } rows[] = {
        {"[1]\n", "t-1", 0},  {"[2]\n", "t-2", 1},
        {"[1]\n", NULL, 2}, /* others have posted: the next ones are by chance */
        {"[1]\n", NULL, -1},  {"[1]\n", "t-9", -1},
        {"[1]\n", "t-10", 5}, {"--x\r\n", "t-11", -1}, /* with bytes */
    };

    char keys[2][N_ELEMENTS(rows)][HARVEST_KEY_SIZE];

    for (size_t k = 0; k < 2; k++) {
        struct harvest_db *h;

        unlink(path);
        h = open_state(state);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
            seal_key(h, rows[i].body, rows[i].target, keys[k][i]);
        assert_true(harvest_db_forget(h));
        seal_key(h, rows[0].body, "t-1", keys[k][N_ELEMENTS(rows) - 1]);
        harvest_db_close(h);
    }
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        for (size_t k = 0; k < N_ELEMENTS(rows); k++) {
            bool are_same = i == k && rows[k].same >= 0;

            assert_int_equal(!strcmp(keys[0][i], keys[1][k]), are_same);
            assert_true(i == k || strcmp(keys[0][i], keys[0][k]) != 0);
        }
}

/* Faults */

static void
assert_why(const char *why, const char *reason)
{
    char want[600];

    snprintf(want, sizeof(want), "the state of this harvest %s: %s", path,
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

#define LONG   "much longer than any position that we have noted, by some bytes"
#define LONGER LONG LONG LONG LONG LONG LONG

TEST(a_damaged_state_is_told)
{
    static const char *const damages[] = {
        "UPDATE post SET n = -1",
        "UPDATE post SET n = 0",
        "UPDATE post SET n = 7",
        "UPDATE post SET body = ''",
        "UPDATE post SET key = 'much longer than any key that we have made'",
        "UPDATE post SET key = 'k', position = '" LONGER "'",
    };
    struct harvest_db *h = open_state(state);
    struct harvest_part part = part_of(h, SOURCE);
    struct harvest_post post;
    struct problem why;
    bool is_there = true;

    assert_true(harvest_db_seal(h, &part, SLICE("[1,2]\n"), 2, "a-9"));
    harvest_db_close(h);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        damage(damages[i]);
        h = open_state(state);
        assert_false(harvest_db_unfinished(h, &post, &is_there));
        assert_false(is_there);
        assert_null(post.body);
        assert_why(h->why->text, "the file is damaged");
        harvest_db_close(h);
        damage("UPDATE post SET n = 2, body = '[1,2]'");
    }
    damage("UPDATE part SET position = '" LONGER "'");
    h = open_state(state);
    assert_false(harvest_db_part(h, SOURCE, SOURCE, &part));
    assert_why(h->why->text, "the file is damaged");
    harvest_db_close(h);
    damage("UPDATE target SET position = '" LONGER "'");
    assert_false(opens(path, SET, &why));
    assert_why(why.text, "the file is damaged");
    damage("PRAGMA user_version = 11");
    assert_false(opens(path, SET, &why));
    assert_why(why.text,
               "the database is of version 11, and this program knows "
               "versions up to 10");
}

/* The disk is full: nothing counts as noted that is not in the file. */
TEST(what_is_not_noted_does_not_count)
{
    struct rlimit nothing, all;
    struct harvest_db *h = open_state(state);
    struct harvest_part part = part_of(h, SOURCE);

    assert_true(harvest_db_seal(h, &part, SLICE("[1,2]\n"), 2, "a-9"));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    nothing = (struct rlimit){0, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &nothing), 0);
    part.complete_us = 5;
    assert_false(harvest_db_note_part(h, &part));
    assert_false(harvest_db_end_disturbance(h, "t-1"));
    assert_false(harvest_db_posted(h, "t-2"));
    assert_false(harvest_db_seal(h, &part, SLICE("[1]"), 1, "a-10"));
    assert_non_null(strstr(h->why->text, path));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_string_equal(part.position, "a-9");
    assert_string_equal(h->target, "");
    assert_true(harvest_db_posted(h, "t-2"));
    assert_string_equal(h->target, "t-2");
    harvest_db_close(h);
}

/* A state of `tidings relay` goes on as the first part: its post comes first,
 * and the set's resources are read once. */
TEST(a_state_of_relay_goes_on)
{
    static const char relay[] =
        "PRAGMA application_id = 1415860837; PRAGMA user_version = 2;"
        "CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,"
        " position TEXT NOT NULL, target_position TEXT NOT NULL,"
        " owns INTEGER NOT NULL DEFAULT 0);"
        "CREATE TABLE post (key TEXT NOT NULL, position TEXT NOT NULL,"
        " made INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);"
        "INSERT INTO relay VALUES ('" SOURCE "', '" SET "', 'a-5', 't-5', 1);"
        "INSERT INTO post VALUES ('k', 'a-9', 7, 1, '[1]')";
    struct tempdir *dir = *state;
    struct harvest_post post;
    struct harvest_db *h;
    bool is_there;

    snprintf(path, sizeof(path), "%s/state", dir->path);
    damage(relay);
    h = open_state(state);
    assert_true(h->is_new);
    assert_int_equal(h->adopter, 1);
    assert_string_equal(h->target, "t-5");
    assert_int_equal(part_of(h, SOURCE).id, 1);
    assert_string_equal(part_of(h, SOURCE).position, "a-9");
    assert_true(harvest_db_unfinished(h, &post, &is_there));
    assert_string_equal(post.before, "a-5");
    free(post.body);
    harvest_db_close(h);
}

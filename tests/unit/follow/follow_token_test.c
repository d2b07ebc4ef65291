/*
 * follow_token_test.c - td_follow with a token that ends, and a token file that
 * gets another one.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/follow/following.h"

static struct tempdir dir;

static int
set_all(void **state)
{
    tempdir_open(&dir);
    return set_stage(state);
}

static int
clear_all(void **state)
{
    tempdir_close(&dir);
    return clear_stage(state);
}

FIXTURE(set_all, clear_all);

/* The client reads `read` now; afterwards the file has `now`. */
static void
give_token(struct stage *s, const char *read, const char *now)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/token", dir.path);
    tempdir_write(dir.fd, "token", read);
    assert_false(chmod(path, 0600));
    assert_int_equal(
        td_client_set_token_file(s->client, fake_broker_url(s->broker), path),
        TD_OK);
    tempdir_write(dir.fd, "token", now);
}

static void
assert_sent(struct stage *s, size_t i, const char *token)
{
    char line[100];

    snprintf(line, sizeof(line), "\r\nAuthorization: Bearer %s\r\n", token);
    assert_non_null(strstr(fake_request(s->broker, i), line));
}

/* Close code 4401: with the new token it goes on at once, without a word. */
TEST(a_stream_that_ends_with_its_token_goes_on_with_the_next)
{
    struct stage *s = *state;

    give_token(s, "old", "new");
    assert_follows(s, "d s 0-2 denied s 2-4", "0", 4, "1 2 3 4 ", 0);
    assert_sent(s, 0, "old");
    assert_sent(s, 1, "new");
}

TEST(a_handshake_that_refuses_the_token_is_repeated_with_the_next)
{
    struct stage *s = *state;

    give_token(s, "old", "new");
    assert_follows(s, "d 401 s 0-2", "0", 2, "1 2 ", 0);
    assert_sent(s, 0, "old");
    assert_sent(s, 1, "new");
}

TEST(so_is_the_search)
{
    struct stage *s = *state;

    give_token(s, "old", "new");
    assert_follows(s, "401 d s 0-2", "0", 2, "1 2 ", 0);
    assert_sent(s, 0, "old");
    assert_sent(s, 1, "new");
}

/* The same token again: it asks after growing pauses, until it is accepted. */
TEST(a_follower_waits_for_a_token_that_is_accepted)
{
    struct stage *s = *state;

    give_token(s, "old", "old");
    assert_follows(s, "d s 0-2 denied 401 401 401 401 s 2-4", "0", 4,
                   "1 2 3 4 ", 3);
    assert_non_null(strstr(s->trouble, "" EARLIEST "; the token of "));
    assert_sent(s, 3, "old");
}

/* A broker that accepts the token and denies it each time is not hammered: the
 * pause of the fourth time is some seconds. */
TEST(pauses_grow_though_a_stream_begins_each_time)
{
    struct stage *s = *state;
    int64_t before_ms = clock_steady_ms();

    give_token(s, "old", "old");
    assert_follows(s,
                   "d s 0-1 denied s 1-2 denied s 2-3 denied s 3-4 denied s "
                   "4-5",
                   "0", 5, "1 2 3 4 5 ", 4);
    assert_true(clock_steady_ms() - before_ms >= (200 + 400 + 800 + 1600) / 2);
}

/* Nobody waits for a token that was never right ... */
TEST(a_token_that_was_never_accepted_is_refused)
{
    struct stage *s = *state;

    give_token(s, "old", "old");
    hold_talk(s, &(struct talk){.script = "d 401 401",
                                .rc = TD_REFUSED,
                                .seen = "",
                                .until = 1,
                                .problem = ""});
}

/* ... nor for one that cannot change. */
TEST(a_token_without_a_file_ends_the_follower)
{
    struct stage *s = *state;

    td_client_set_token(s->client, fake_broker_url(s->broker), "old");
    hold_talk(s, &(struct talk){.script = "d s 0-2 denied 401 401",
                                .after = "0",
                                .rc = TD_REFUSED,
                                .seen = "1 2 ",
                                .until = 4,
                                .problem = "401: " EARLIEST,
                                .troubles = 1});
}

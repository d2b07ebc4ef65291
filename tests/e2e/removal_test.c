/*
 * removal_test.c - a set that is removed is gone, visibly; made again it is
 * another one, and no address ever gets other bytes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/folder.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static const struct slice nothing = {NULL, 0};

static long
remove_set(struct http *h, const char *path)
{
    return http_request(h, "DELETE", path, NULL, nothing);
}

static void
member_of_set(struct http *h, const char *set, const char *member, char *to,
              size_t size)
{
    struct jsonpath j;
    char path[80];
    const char *text;

    snprintf(path, sizeof(path), "/sets/%s", set);
    assert_int_equal(http_get(h, path), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    text = jsonpath_text(&j, member);
    if (!text)
        text = jsonpath_digits(&j, member);
    assert_non_null(text);
    snprintf(to, size, "%s", text);
    jsonpath_close(&j);
}

static size_t
count_described(struct http *h)
{
    struct xpath x;
    size_t n;

    assert_int_equal(http_get(h, "/.well-known/resourcesync"), 200);
    xpath_open(&x, buf_slice(&h->body));
    n = xpath_count(&x, "/s:urlset/s:url");
    xpath_close(&x);
    return n;
}

/* visible in the Source Description at once; all that it had is gone,
 * which is more than not found. Design section 4. */
TEST(answers_410_for_all_that_a_removed_set_had, broker_setup, broker_teardown)
{
    static const char *const paths[] = {
        "/sets/demo",
        "/sets/demo/changes?after=0",
        "/sets/demo/capabilitylist.xml",
        "/sets/demo/changelist.xml",
        "/sets/demo/changes/000000000001.xml",
        "/sets/demo/changelist-archive.xml",
    };
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    source_post(&h, "other", 1, 3, 0);
    source_rotate(&h, "demo");
    assert_int_equal(count_described(&h), 2);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    assert_int_equal(h.body.size, 0);

    assert_int_equal(count_described(&h), 1);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
            http_get(&h, paths[i]);
            assert_refused(&h, 410, "was removed");
        }
        http_request(&h, "POST", "/sets/demo/rotate", NULL, SLICE(""));
        assert_refused(&h, 410, "was removed");
        remove_set(&h, "/sets/demo");
        assert_refused(&h, 410, "was removed");
        assert_int_equal(http_get(&h, "/sets/other/changelist.xml"), 200);
        broker_stop(b);
        broker_restart(b);
    }
    remove_set(&h, "/sets/never");
    assert_refused(&h, 404, "there is no set");
    http_close(&h);
}

/* Streams get a farewell of their own, whichever state they are in. */
TEST(says_farewell_to_the_streams_of_a_removed_set, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct follower waiting, other, behind;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    source_post(&h, "other", 1, 3, 0);
    for (unsigned i = 0; i < 200; i++)
        source_post(&h, "demo", 1, 1, 200000);
    follower_open(&waiting, b->port, "/sets/demo/stream", NULL);
    follower_next(&waiting);
    follower_open(&other, b->port, "/sets/other/stream", NULL);
    follower_next(&other);
    follower_open_narrow(&behind, b->port, "/sets/demo/stream?after=0",
                         "resourcesync.xml");

    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    follower_expect_close(&behind, 4404); /* it has five seconds */
    follower_expect_close(&waiting, 4404);
    assert_string_equal(waiting.close_reason, "the set was removed");
    source_post(&h, "other", 4, 1, 0);
    assert_int_equal(follower_news(&other)->last, 4);
    follower_close(&waiting);
    follower_close(&other);
    follower_close(&behind);
    http_close(&h);
}

/* The list numbers go on: an address that was served as immutable answers 410,
 * and never with other bytes. */
TEST(makes_another_set_of_the_same_name, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    char before[40], after[40], number[40];
    struct xpath x;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    source_rotate(&h, "demo");
    source_post(&h, "demo", 4, 3, 0); /* list 2 is open */
    member_of_set(&h, "demo", "epoch", before, sizeof(before));
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);

    assert_int_equal(source_post(&h, "demo", 1, 2, 0).first, 1);
    member_of_set(&h, "demo", "epoch", after, sizeof(after));
    assert_string_not_equal(before, after);
    member_of_set(&h, "demo", "lists.open", number, sizeof(number));
    assert_string_equal(number, "3");

    for (int round = 0; round < 3; round++) {
        http_get(&h, "/sets/demo/changes/000000000001.xml");
        assert_refused(&h, 410, "no longer kept");
        http_get(&h, "/sets/demo/changes/000000000002.xml");
        assert_refused(&h, 410, "no longer kept");
        assert_int_equal(http_get(&h, "/sets/demo/changes/000000000003.xml"),
                         200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "/s:urlset/s:url", 2);
        /* It begins a history: there is none before it. */
        assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='prev']", 0);
        xpath_close(&x);
        if (round == 0) {
            broker_kill9(b);
            broker_restart(b);
        } else if (round == 1) {
            source_rotate(&h, "demo");
        }
    }
    assert_int_equal(http_get(&h, "/sets/demo/changelist-archive.xml"), 200);
    xpath_open(&x, buf_slice(&h.body));
    assert_xpath_count(&x, "/s:urlset/s:url", 1);
    xpath_close(&x);
    http_close(&h);
}

/* A position of the removed set is of another epoch. R-345. */
TEST(refuses_positions_of_the_removed_set, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct receipt receipt;
    struct http h;
    char path[120];

    http_open(&h, b->url);
    receipt = source_post(&h, "demo", 1, 3, 0);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    source_post(&h, "demo", 1, 5, 0);
    snprintf(path, sizeof(path), "/sets/demo/changes?after=%s",
             receipt.position);
    http_get(&h, path);
    assert_refused(&h, 410, "another log");
    http_close(&h);
}

/* Settings go with the set. */
TEST(forgets_the_settings_of_a_removed_set, broker_setup, broker_teardown)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct broker *b = broker_of(state);
    char text[40];
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(http_request(&h, "PUT", "/sets/demo", json,
                                  SLICE("{\"rotateEntries\":1}")),
                     201);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    assert_int_equal(http_request(&h, "PUT", "/sets/demo", json, SLICE("{}")),
                     201);
    source_post(&h, "demo", 1, 3, 0);
    member_of_set(&h, "demo", "settings.rotateEntries", text, sizeof(text));
    assert_string_equal(text, "50000");
    member_of_set(&h, "demo", "lists.closed", text, sizeof(text));
    assert_string_equal(text, "0");
    http_close(&h);
}

/* Files stay for the grace period, then they go; those of the set that was made
 * again stay. */
TEST(takes_the_files_after_the_grace_period)
{
    struct broker b;
    struct http h;

    broker_open(&b, "--rotate-entries", "1", "--remove-grace", "3600", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 150, 0);
    folder_await_lists(b.data, "demo", 150);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    source_post(&h, "demo", 1, 5, 0);
    folder_await_lists(b.data, "demo", 155);
    http_close(&h);
    broker_close(&b);

    broker_open(&b, "--rotate-entries", "1", "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 150, 0);
    folder_await_lists(b.data, "demo", 150);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    source_post(&h, "demo", 1, 5, 0);
    folder_await_lists(b.data, "demo", 5);
    assert_int_equal(http_get(&h, "/sets/demo/changes/000000000156.xml"), 200);
    assert_int_equal(http_get(&h, "/sets/demo/changes?after=0"), 200);
    assert_int_equal(remove_set(&h, "/sets/demo"), 204);
    folder_await_lists(b.data, "demo", 0);
    http_close(&h);
    broker_close(&b);
}

/* SIGKILL while sets are removed: each is there whole or removed, and what was
 * acknowledged as removed stays so; the files go all the same. */
TEST(survives_sigkill_in_the_middle_of_removals)
{
    struct broker b;
    struct http h;

    broker_open(&b, "--rotate-entries", "1", "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    for (unsigned round = 0; round < 12; round++) {
        char set[20], path[400];
        unsigned n = 70 + round;
        struct patience last = {.with = "the set's folder to go"};
        struct wire *w;
        long status;

        snprintf(set, sizeof(set), "s%u", round);
        source_post(&h, set, 1, n, 0);
        folder_await_lists(b.data, set, n);
        /* Nobody waits for the answer; how far it comes is up to chance, and
         * to the round. */
        w = wire_connect("127.0.0.1", b.port);
        assert_non_null(w);
        assert_true(wire_send_format(
            w, "DELETE /sets/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", set));
        if (round % 3 == 1) {
            struct wire_answer a;

            assert_true(wire_answer(w, &a, false));
            assert_int_equal(a.status, 204);
        } else if (round % 3 == 2) {
            struct patience p = {.with = "the files to go"};

            while (folder_count_lists(b.data, set) == n)
                patience_look(&p);
        }
        broker_kill9(&b);
        wire_close(w);
        broker_restart(&b);

        snprintf(path, sizeof(path), "/sets/%s/changes?after=0", set);
        status = http_get(&h, path);
        assert_true(status == 410 || (status == 200 && round % 3 == 0));
        if (status == 200) {
            folder_await_lists(b.data, set, n);
            snprintf(path, sizeof(path), "/sets/%s", set);
            assert_int_equal(remove_set(&h, path), 204);
        }
        folder_await_lists(b.data, set, 0);
        snprintf(path, sizeof(path), "%s/sets/%s", b.data, set);
        while (access(path, F_OK) == 0)
            patience_step(&last); /* nothing is left in it then */
    }
    http_close(&h);
    broker_close(&b);
}

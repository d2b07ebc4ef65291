/*
 * restart_test.c - what a start does to lists that are old enough to be closed.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* Each with one open list: many, so that a list is sure to be closed as early
 * as it can be. */
#define SETS 20

/* That fail. */
#define STARTS 40

/* Many, so that a start takes its time. */
#define THREADS "32"

/* So old are all lists when a broker starts again. */
#define AGE "0.001"

static const char *
path_of(unsigned set, unsigned list)
{
    static char path[80];

    snprintf(path, sizeof(path), "/sets/s%u/changes/%012u.xml", set, list);
    return path;
}

/* Starts a broker that never closes a list, posts to all sets, and ends it. */
static void
leave_open_lists(struct broker *b)
{
    struct http h;

    broker_open(b, "--rotate-age", "0", "--threads", THREADS, NULL);
    http_open(&h, b->url);
    for (unsigned i = 0; i < SETS; i++) {
        char set[16];

        snprintf(set, sizeof(set), "s%u", i);
        source_post(&h, set, 1, 2, 0);
    }
    http_close(&h);
    broker_stop(b);
}

static void
set_age(struct broker *b, const char *age)
{
    for (size_t i = 1; b->arguments[i]; i++)
        if (!strcmp(b->arguments[i - 1], "--rotate-age"))
            b->arguments[i] = age;
}

/* Waits until list 1 of a set is closed: then there is a second one. */
static void
await_closed(struct http *h, unsigned set)
{
    for (int left = PATIENCE_MS / LISTS_LOOK_MS;
         http_get(h, path_of(set, 2)) != 200; left--) {
        if (left == 0)
            fail_msg("list 1 of s%u was not closed within %d ms", set,
                     PATIENCE_MS);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
}

static void
assert_link(struct xpath *x, const struct broker *b, unsigned set,
            const char *rel, const char *document)
{
    char question[80], url[200];

    snprintf(question, sizeof(question), "/*/rs:ln[@rel='%s']/@href", rel);
    snprintf(url, sizeof(url), "%s/sets/s%u/%s", b->url, set, document);
    assert_xpath_text(x, question, url);
}

/* the header of a closed list is for ever, so none is closed
 * before the public URL is known, on whatever port that is. */
TEST(a_start_closes_old_lists_with_its_own_public_url)
{
    struct broker b;
    struct http h;

    leave_open_lists(&b);
    set_age(&b, AGE);
    snprintf(b.listen, sizeof(b.listen), "127.0.0.1:0");
    broker_restart(&b);

    http_open(&h, b.url);
    for (unsigned i = 0; i < SETS; i++) {
        struct xpath x;

        await_closed(&h, i);
        assert_int_equal(http_get(&h, path_of(i, 1)), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "/s:urlset/rs:md/@until", 1);
        assert_link(&x, &b, i, "up", "capabilitylist.xml");
        assert_link(&x, &b, i, "index", "changelist.xml");
        assert_link(&x, &b, i, "next", "changes/000000000002.xml");
        xpath_close(&x);
    }
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

/* a broker that cannot start leaves everything as it was. */
TEST(a_start_that_fails_closes_no_list)
{
    char listen[64], said[2000];
    struct broker b, other;
    struct http h;

    leave_open_lists(&b);
    broker_open(&other, NULL);
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", other.port);
    for (int i = 0; i < STARTS; i++) {
        assert_int_not_equal(broker_run(said, sizeof(said), "--listen", listen,
                                        "--data", b.data, "--threads", THREADS,
                                        "--rotate-age", AGE, NULL),
                             0);
        assert_non_null(strstr(said, "in use"));
    }
    broker_stop(&other);
    broker_close(&other);

    broker_restart(&b);
    http_open(&h, b.url);
    for (unsigned i = 0; i < SETS; i++) {
        struct xpath x;

        assert_int_equal(http_get(&h, path_of(i, 2)), 404);
        assert_int_equal(http_get(&h, path_of(i, 1)), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "/s:urlset/rs:md/@until", 0);
        assert_xpath_count(&x, "/s:urlset/s:url", 2);
        xpath_close(&x);
    }
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

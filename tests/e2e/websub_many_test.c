/*
 * websub_many_test.c - many subscriptions, one in twenty of them sick, very
 * many changes, and a kill in the middle.
 *
 * The sick ones are on addresses of their own: limits go by host. How long a
 * change takes to the healthy ones, with and without them, is printed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/callbacks.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"
#include "tests/support/notice.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define SUBSCRIPTIONS test_size(200, 2000)
#define SICK          (SUBSCRIPTIONS / 20)
#define CHANGES       test_size(5000, 50000)
#define POST_ENTRIES  100 /* of a post in the crowd of them */

/* Posts that are looked at one by one, each of so many entries. */
#define MEASURED         20
#define MEASURED_ENTRIES 5

/* Servers: two of healthy callbacks, three of sick ones. */
enum server { HEALTHY, HEALTHY_TOO, DEAD, HANGING, SLOW, SERVERS };

static const char *const hosts[SERVERS] = {
    "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"};

struct stage {
    struct broker broker;
    struct http http;
    struct callbacks *servers[SERVERS];
    struct callback **all; /* SUBSCRIPTIONS of them */
    size_t n_healthy;      /* the first ones */
    unsigned n_posted;
    uint64_t last;
};

/* Subscribing */

static void
subscribe_all(struct stage *s)
{
    for (size_t i = 0; i < SUBSCRIPTIONS; i++) {
        const char *url = callback_url(s->all[i]);
        long status;

        do /* 429: too many wait for their verification */
            status = HUB_SUBSCRIBE(&s->http, .set = "news", .callback = url);
        while (status == 429);
        hub_assert_taken(&s->http, status);
    }
    for (size_t i = 0; i < SUBSCRIPTIONS; i++)
        callback_await(s->all[i], SEEN_VERIFICATION, 1);
}

/* The stage */

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--hub-retry-first", "0.1", "--hub-retry-max",
                "0.5", "--hub-timeout", "2", "--hub-connections", "400",
                "--hub-host-connections", "64", NULL);
    http_open(&s->http, s->broker.url);
    for (size_t i = 0; i < SERVERS; i++)
        s->servers[i] = callbacks_new(hosts[i], false);
    s->n_healthy = SUBSCRIPTIONS - SICK;
    s->all = calloc(SUBSCRIPTIONS, sizeof(struct callback *));
    assert_non_null(s->all);
    for (size_t i = 0; i < SUBSCRIPTIONS; i++) {
        size_t server = i < s->n_healthy ? i % 2 : DEAD + i % 3;
        char target[60];

        snprintf(target, sizeof(target), "/cb/%zu?of=many", i);
        s->all[i] = callbacks_add(s->servers[server], target);
    }
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    broker_close(&s->broker);
    for (size_t i = 0; i < SERVERS; i++)
        callbacks_free(s->servers[i]);
    free(s->all);
    free(s);
    return 0;
}

static void
post(struct stage *s, size_t n)
{
    s->last = source_post(&s->http, "news", s->n_posted, n, 0).last;
    s->n_posted += (unsigned)n;
}

static void
await_healthy(struct stage *s)
{
    callbacks_await_last(s->servers[HEALTHY], s->last);
    callbacks_await_last(s->servers[HEALTHY_TOO], s->last);
}

static void
fall_sick(struct stage *s)
{
    static const struct manner manners[] = {
        [DEAD] = {.kind = MANNER_CLOSE},
        [HANGING] = {.kind = MANNER_HANG},
        [SLOW] = {.kind = MANNER_TRICKLE, .pause_ms = 10},
    };

    callbacks_go_down(s->servers[DEAD]);
    for (size_t i = s->n_healthy; i < SUBSCRIPTIONS; i++)
        callback_does(s->all[i], SEEN_DELIVERY, &manners[DEAD + i % 3], 1);
}

/* How long it takes */

static int
compare(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

static void
measure(struct stage *s, const char *what)
{
    int64_t *took_us = calloc(MEASURED * s->n_healthy, sizeof(*took_us));
    size_t n = 0;

    assert_non_null(took_us);
    for (unsigned round = 0; round < MEASURED; round++) {
        int64_t begin_us = callbacks_now_us();

        post(s, MEASURED_ENTRIES);
        await_healthy(s);
        for (size_t i = 0; i < s->n_healthy; i++) {
            size_t k = callback_count(s->all[i], SEEN_DELIVERY);

            took_us[n++] =
                callback_seen(s->all[i], SEEN_DELIVERY, k - 1)->at_us -
                begin_us;
        }
    }
    qsort(took_us, n, sizeof(*took_us), compare);
    print_message("from post to %zu callbacks, %s: p50 %.1f ms, p99 %.1f ms\n",
                  s->n_healthy, what, (double)took_us[n / 2] / 1e3,
                  (double)took_us[n * 99 / 100] / 1e3);
    free(took_us);
}

/* What they got */

/* The digest of the entries that a server's callbacks got, from the first on,
 * is the one that the topic tells with the last. */
static void
check_entries(struct stage *s, struct callbacks *c)
{
    static const char end[] = "</url>\n";
    struct slice entries = callbacks_entries(c);
    char digest[NOTICE_DIGEST_SIZE];
    struct xpath x;
    uint64_t n = 0;

    assert_int_equal(http_get(&s->http, "/sets/news/notifications"), 200);
    xpath_open(&x, buf_slice(&s->http.body));
    notice_digest_start(digest, xpath_get(&x, "/s:urlset/rs:md/@td:epoch"));
    while (entries.size > 0) {
        const char *at =
            memmem(entries.data, entries.size, end, sizeof(end) - 1);
        size_t size;

        assert_non_null(at);
        size = (size_t)(at - entries.data) + sizeof(end) - 1;
        notice_digest_add(digest, (struct slice){entries.data, size});
        entries.data += size;
        entries.size -= size;
        n++;
    }
    assert_int_equal(n, s->last);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:digest", digest);
    xpath_close(&x);
}

static void
check_healthy(struct stage *s)
{
    size_t n = 0, n_repeats = 0;

    for (size_t i = 0; i < s->n_healthy; i++) {
        struct callback_journal j = callback_journal(s->all[i]);

        assert_int_equal(j.first_after, 0);
        assert_int_equal(j.last, s->last);
        assert_int_equal(j.n_holes, 0);
        n += j.n;
        n_repeats += j.n_repeats;
    }
    callbacks_assert_faultless(s->servers[HEALTHY]);
    callbacks_assert_faultless(s->servers[HEALTHY_TOO]);
    check_entries(s, s->servers[HEALTHY]);
    check_entries(s, s->servers[HEALTHY_TOO]);
    print_message("%" PRIu64 " changes to %zu callbacks in %zu deliveries; %zu "
                  "were repeated\n",
                  s->last, s->n_healthy, n, n_repeats);
}

FIXTURE(set_stage, clear_stage);

/* W-074, W-091, W-092, W-093, R-291, R-306, R-310 */
TEST(the_healthy_get_everything_whatever_the_sick_do)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct stage *s = *state;
    size_t n_posts = CHANGES / POST_ENTRIES;

    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/news", json, SLICE("{}")), 201);
    subscribe_all(s);
    measure(s, "all in good health");
    fall_sick(s);
    measure(s, "one in twenty sick");

    for (size_t i = 0; i < n_posts; i++) {
        post(s, POST_ENTRIES);
        if (i == n_posts / 2) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
    }
    await_healthy(s);
    check_healthy(s);
    for (size_t i = DEAD; i < SERVERS; i++)
        callbacks_assert_faultless(s->servers[i]);

    /* Who is up again gets everything, too. */
    callbacks_come_up(s->servers[DEAD]);
    for (size_t i = s->n_healthy; i < SUBSCRIPTIONS; i++)
        CALLBACK_DOES(s->all[i], SEEN_DELIVERY, {.status = 200});
    for (size_t i = s->n_healthy; i < SUBSCRIPTIONS; i++) {
        callback_await_last(s->all[i], s->last);
        assert_int_equal(callback_journal(s->all[i]).n_holes, 0);
    }
    for (size_t i = DEAD; i < SERVERS; i++)
        callbacks_assert_faultless(s->servers[i]);
    broker_stop(&s->broker);
}

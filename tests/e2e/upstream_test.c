/*
 * upstream_test.c - two brokers, chained: the changes of a set of one are taken
 * in by a set of the other, through an external hub and an upstream topic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"
#include "tests/support/origin.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/test.h"

/* `up` tells `down`. */
struct stage {
    struct broker up, down;
    struct http to_up, to_down;
    struct origin *origin; /* or NULL */
};

static void
put(struct http *h, const char *path, const char *text)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    long status =
        http_request(h, "PUT", path, json, (struct slice){text, strlen(text)});

    if (status != 201 && status != 200)
        fail_msg("PUT %s: %ld %.*s", path, status,
                 SLICE_ARG(buf_slice(&h->body)));
}

static bool
has_hub(struct http *h)
{
    static const char kind[] = "\"kind\":\"hub\"";

    assert_int_equal(http_get(h, "/sets/news/subscriptions"), 200);
    return memmem(h->body.data, h->body.size, kind, strlen(kind));
}

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct patience p = {.with = "the hub of the set"};
    char text[400];

    assert_non_null(s);
    *state = s;
    broker_open(&s->up, "--hub-retry-first", "0.02", "--hub-retry-max", "0.2",
                NULL);
    broker_open(&s->down, NULL);
    http_open(&s->to_up, s->up.url);
    http_open(&s->to_down, s->down.url);
    snprintf(text, sizeof(text),
             "{\"upstream_topic\":\"%s/sets/news/notifications\"}", s->up.url);
    put(&s->to_down, "/sets/mirror", text);
    snprintf(text, sizeof(text), "{\"hubs\":[\"%s/hub\"]}", s->down.url);
    put(&s->to_up, "/sets/news", text);
    while (!has_hub(&s->to_up)) /* where it begins is kept then */
        patience_step(&p);
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->to_up);
    http_close(&s->to_down);
    broker_close(&s->up);
    broker_close(&s->down);
    origin_free(s->origin);
    free(s);
    return 0;
}

static uint64_t
last(struct http *h, const char *path)
{
    const char *at;

    assert_int_equal(http_get(h, path), 200);
    buf_add(&h->body, "", 1);
    at = strstr(h->body.data, "\"last\":");
    assert_non_null(at);
    return strtoull(at + strlen("\"last\":"), NULL, 10);
}

static void
await_last(struct http *h, const char *path, uint64_t n)
{
    time_t until = time(NULL) + PATIENCE_MS / 1000;

    while (last(h, path) < n)
        if (time(NULL) > until)
            fail_msg("%s: %s has not come to %u", h->url, path, (unsigned)n);
}

/* The mirror has the entries 1 to `n` of source_post, each once, in order. */
static void
assert_mirrors(struct stage *s, unsigned n)
{
    char path[80], loc[80];
    unsigned found = 0;

    await_last(&s->to_down, "/sets/mirror", n);
    while (found < n) {
        const char *at;
        unsigned before = found;

        snprintf(path, sizeof(path), "/sets/mirror/changes?after=%u", found);
        assert_int_equal(http_ask(&s->to_down, "GET", path,
                                  "Accept: application/json", NULL),
                         200);
        buf_add(&s->to_down.body, "", 1);
        at = s->to_down.body.data;
        while ((at = strstr(at, "{\"loc\":\""))) {
            snprintf(loc, sizeof(loc), "{\"loc\":\"http://example.com/r/%u\"",
                     ++found);
            assert_memory_equal(at, loc, strlen(loc));
            at++;
        }
        assert_true(found > before);
    }
    assert_int_equal(found, n);
    assert_int_equal(last(&s->to_down, "/sets/mirror"), n);
}

FIXTURE(set_up, tear_down);

/* Issue 4, points 5 and 6; R-293, W-013, W-142. */
TEST(every_change_arrives_once)
{
    struct stage *s = *state;

    for (unsigned i = 0; i < 50; i++)
        source_post(&s->to_up, "news", i * 3 + 1, 3, 0);
    assert_mirrors(s, 150);
}

TEST(every_change_arrives_once_though_the_taker_is_killed)
{
    struct stage *s = *state;
    unsigned n = 0;

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 20; i++)
            source_post(&s->to_up, "news", ++n, 1, 0);
        broker_kill9(&s->down);
        for (int i = 0; i < 5; i++)
            source_post(&s->to_up, "news", ++n, 1, 0);
        broker_restart(&s->down);
    }
    assert_mirrors(s, n);
}

TEST(every_change_arrives_once_though_the_giver_is_killed)
{
    struct stage *s = *state;
    unsigned n = 0;

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 20; i++)
            source_post(&s->to_up, "news", ++n, 1, 0);
        broker_kill9(&s->up);
        broker_restart(&s->up);
    }
    source_post(&s->to_up, "news", ++n, 1, 0);
    assert_mirrors(s, n);
}

/* W-001, W-013: who discovers the topic finds both hubs. */
TEST(the_topic_names_both_hubs)
{
    struct stage *s = *state;
    char ours[100], theirs[100];

    snprintf(ours, sizeof(ours), "<%s/hub>; rel=\"hub\"", s->up.url);
    snprintf(theirs, sizeof(theirs), "<%s/hub>; rel=\"hub\"", s->down.url);
    assert_int_equal(
        http_ask(&s->to_up, "HEAD", "/sets/news/notifications", NULL), 200);
    assert_non_null(strstr(http_header(&s->to_up, "Link"), ours));
    assert_non_null(strstr(http_header(&s->to_up, "Link"), theirs));
    snprintf(theirs, sizeof(theirs), "<rs:ln rel=\"hub\" href=\"%s/hub\"/>",
             s->down.url);
    assert_int_equal(http_get(&s->to_up, "/sets/news/capabilitylist.xml"), 200);
    buf_add(&s->to_up.body, "", 1);
    assert_non_null(strstr(s->to_up.body.data, theirs));
}

/* The longest ones that a set can have. */
TEST(all_hubs_of_a_set_fit_into_the_header)
{
    struct stage *s = *state;
    char hub[513], text[6000] = "{\"hubs\":[", link[600];
    size_t n;

    for (int i = 0; i < 8; i++) {
        snprintf(hub, sizeof(hub), "http://127.0.0.1:1/%d/%0491d", i, 0);
        n = strlen(text);
        snprintf(text + n, sizeof(text) - n, "%s\"%s\"", i ? "," : "", hub);
    }
    n = strlen(text);
    snprintf(text + n, sizeof(text) - n, "]}");
    assert_int_equal(strlen(hub), 512);
    put(&s->to_up, "/sets/news", text);

    assert_int_equal(
        http_ask(&s->to_up, "HEAD", "/sets/news/notifications", NULL), 200);
    buf_add(&s->to_up.headers, "", 1);
    for (int i = 0; i < 8; i++) {
        snprintf(link, sizeof(link),
                 "<http://127.0.0.1:1/%d/%0491d>; rel=\"hub\"", i, 0);
        assert_non_null(strstr(s->to_up.headers.data, link));
    }
    assert_non_null(strstr(s->to_up.headers.data, "rel=\"self\""));
}

/* A hub that is taken off the settings hears no more. */
TEST(a_hub_that_is_not_named_any_more_is_told_nothing)
{
    struct stage *s = *state;

    source_post(&s->to_up, "news", 1, 1, 0);
    assert_mirrors(s, 1);
    put(&s->to_up, "/sets/news", "{}");
    /* Its subscription ends when the hub's thread has heard of it. */
    for (time_t until = time(NULL) + PATIENCE_MS / 1000; time(NULL) < until;) {
        assert_int_equal(http_get(&s->to_up, "/sets/news/subscriptions"), 200);
        buf_add(&s->to_up.body, "", 1);
        if (!strstr(s->to_up.body.data, "\"kind\":\"hub\""))
            break;
    }
    assert_null(strstr(s->to_up.body.data, "\"kind\":\"hub\""));
    source_post(&s->to_up, "news", 2, 1, 0);
    assert_int_equal(last(&s->to_down, "/sets/mirror"), 1);
}

/* W-123: a Source that only pings. */
TEST(a_ping_makes_the_taker_fetch)
{
    static const char notice[] =
        "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
        "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
        "<rs:md capability=\"change-notification\"/>"
        "<url><loc>http://example.com/r/1</loc>"
        "<rs:md change=\"created\"/></url></urlset>";
    struct stage *s = *state;
    struct buf form;
    char text[400];

    s->origin = origin_new("/topic");
    origin_content(s->origin, "application/xml", "\"1\"", SLICE(notice));
    snprintf(text, sizeof(text), "{\"upstreamTopic\":\"%s\"}",
             origin_url(s->origin));
    put(&s->to_down, "/sets/mirror", text);

    buf_init(&form, 1000);
    BUF_ADD(&form, "hub.mode=publish&hub.url=");
    hub_encode(&form, origin_url(s->origin));
    buf_add(&form, "", 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hub_send(&s->to_down, form.data), 204);
    buf_fini(&form);
    assert_mirrors(s, 1);
}

/*
 * sets_test.c - sets are created, configured and described.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* Enough for several pages of GET /sets, and for what is linear to show. */
#define MANY 2000

static const char *const json[] = {"Content-Type: application/json", NULL};

static long
put(struct http *h, const char *path, const char *settings)
{
    return http_request(h, "PUT", path, json, slice_of(settings));
}

/* Asks for a set's description; the caller closes it. */
static void
describe(struct http *h, struct jsonpath *j, const char *path)
{
    assert_int_equal(http_get(h, path), 200);
    assert_string_equal(http_header(h, "Content-Type"), "application/json");
    jsonpath_open(j, buf_slice(&h->body));
}

/* The href of a relation; lent. */
static const char *
href_of(const struct jsonpath *j, const char *rel)
{
    for (unsigned i = 0; i < jsonpath_count(j, "links"); i++) {
        char path[64];

        snprintf(path, sizeof(path), "links.%u.rel", i);
        if (strcmp(jsonpath_text(j, path), rel))
            continue;
        snprintf(path, sizeof(path), "links.%u.href", i);
        return jsonpath_text(j, path);
    }
    return NULL;
}

/* The entries of the urlset that came. */
static size_t
count_urls(struct http *h)
{
    struct xpath x;
    size_t n;

    xpath_open(&x, buf_slice(&h->body));
    n = xpath_count(&x, "/s:urlset/s:url");
    xpath_close(&x);
    return n;
}

FIXTURE(broker_setup, broker_teardown);

/* Design section 4: PUT creates a set; R-049: visible at once. */
TEST(creates_a_set_without_entries)
{
    struct broker *b = broker_of(state);
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(http_get(&h, "/sets/demo"), 404);
    assert_int_equal(put(&h, "/sets/demo", "{\"title\":\"The \\\"demo\\\"\"}"),
                     201);
    assert_true(strstr(http_header(&h, "Location"), "/sets/demo") != NULL);
    jsonpath_open(&j, buf_slice(&h.body));
    assert_string_equal(jsonpath_text(&j, "title"), "The \"demo\"");
    assert_int_equal(jsonpath_number(&j, "last"), 0);
    jsonpath_close(&j);

    assert_int_equal(http_get(&h, "/.well-known/resourcesync"), 200);
    assert_int_equal(count_urls(&h), 1);
    assert_int_equal(http_get(&h, "/sets/demo/capabilitylist.xml"), 200);
    assert_int_equal(http_get(&h, "/sets/demo/changelist.xml"), 200);
    assert_int_equal(count_urls(&h), 0);
    assert_int_equal(http_get(&h, "/sets/demo/changes?after=0"), 200);
    assert_int_equal(source_post(&h, "demo", 1, 2, 0).first, 1);
    http_close(&h);
}

/* PUT is a replacement: what is absent takes the broker's default. */
TEST(replaces_all_settings)
{
    struct broker *b = broker_of(state);
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 1, 0); /* an open broker creates it */
    assert_int_equal(put(&h, "/sets/demo",
                         "{\"title\":\"Demo\",\"rotateEntries\":9,"
                         "\"description\":\"http://example.org/about\"}"),
                     200);
    describe(&h, &j, "/sets/demo");
    assert_string_equal(jsonpath_text(&j, "title"), "Demo");
    assert_string_equal(jsonpath_text(&j, "description"),
                        "http://example.org/about");
    assert_int_equal(jsonpath_number(&j, "settings.rotateEntries"), 9);
    assert_int_equal(jsonpath_number(&j, "settings.rotateAge"), 86400);
    jsonpath_close(&j);

    assert_int_equal(put(&h, "/sets/demo", "{\"rotateAge\":1.5}"), 200);
    describe(&h, &j, "/sets/demo");
    assert_false(jsonpath_has(&j, "title"));
    assert_false(jsonpath_has(&j, "description"));
    assert_int_equal(jsonpath_number(&j, "settings.rotateEntries"), 50000);
    assert_string_equal(jsonpath_digits(&j, "settings.rotateAge"), "1.5");
    jsonpath_close(&j);
    http_close(&h);
}

/* Nothing of a refused PUT is kept. */
TEST(refuses_settings_that_make_no_sense)
{
    static const char *const xml[] = {"Content-Type: application/xml", NULL};
    struct broker *b = broker_of(state);
    static char large[60000];
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(put(&h, "/sets/demo", "{\"rotateEntires\":5}"), 422);
    assert_refused(&h, 422, "is \"rotateEntries\" meant?");
    put(&h, "/sets/demo", "{\"rotateEntries\":0}");
    assert_refused(&h, 422, "rotateEntries: 0 is not between 1 and 50000");
    put(&h, "/sets/demo", "{\"rotateEntries\":");
    assert_refused(&h, 400, "");
    http_request(&h, "PUT", "/sets/demo", xml, SLICE("<a/>"));
    assert_refused(&h, 415, "application/json");
    put(&h, "/sets/Demo", "{}");
    assert_refused(&h, 404, "no set can be called");
    memset(large, ' ', sizeof(large) - 1);
    put(&h, "/sets/demo", large);
    assert_refused(&h, 413, "bytes");
    assert_int_equal(http_get(&h, "/sets/demo"), 404);
    assert_int_equal(http_request(&h, "POST", "/sets/demo", json, SLICE("{}")),
                     405);
    http_close(&h);
}

/* Lists that end by a set's own settings: from the next commit on. */
TEST(rotates_a_set_by_its_own_settings)
{
    struct broker *b = broker_of(state);
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "own", 1, 5, 0);
    source_post(&h, "other", 1, 5, 0);
    assert_int_equal(put(&h, "/sets/own", "{\"rotateEntries\":2}"), 200);
    source_post(&h, "own", 6, 4, 0);
    source_post(&h, "other", 6, 4, 0);

    /* 5, 2, 2 and an open one without entries */
    describe(&h, &j, "/sets/own");
    assert_int_equal(jsonpath_number(&j, "lists.open"), 4);
    assert_int_equal(jsonpath_number(&j, "lists.closed"), 3);
    assert_int_equal(jsonpath_number(&j, "lists.entries"), 0);
    assert_int_equal(jsonpath_number(&j, "last"), 9);
    jsonpath_close(&j);
    describe(&h, &j, "/sets/other");
    assert_int_equal(jsonpath_number(&j, "lists.open"), 1);
    assert_int_equal(jsonpath_number(&j, "lists.entries"), 9);
    jsonpath_close(&j);
    http_close(&h);
}

/* By age, where the broker itself would wait for a day. */
TEST(rotates_a_set_by_its_own_age)
{
    struct broker *b = broker_of(state);
    struct jsonpath j;
    struct http h;
    bool is_closed = false;
    struct patience p = {.with = "the list to be closed"};

    http_open(&h, b->url);
    assert_int_equal(put(&h, "/sets/own", "{\"rotateAge\":0.01}"), 201);
    source_post(&h, "own", 1, 1, 0);
    source_post(&h, "other", 1, 1, 0);
    while (!is_closed) {
        patience_step(&p);
        describe(&h, &j, "/sets/own");
        is_closed = jsonpath_number(&j, "lists.closed") == 1;
        jsonpath_close(&j);
    }
    describe(&h, &j, "/sets/other");
    assert_int_equal(jsonpath_number(&j, "lists.closed"), 0);
    jsonpath_close(&j);
    http_close(&h);
}

/* acknowledged settings are durable. */
TEST(keeps_settings_over_restart_and_kill)
{
    struct broker *b = broker_of(state);
    struct jsonpath j;
    struct http h;
    char epoch[17] = "";

    http_open(&h, b->url);
    assert_int_equal(
        put(&h, "/sets/demo", "{\"title\":\"Demo\",\"rotateEntries\":2}"), 201);
    describe(&h, &j, "/sets/demo");
    snprintf(epoch, sizeof(epoch), "%s", jsonpath_text(&j, "epoch"));
    jsonpath_close(&j);

    for (int round = 0; round < 2; round++) {
        if (round == 0)
            broker_kill9(b);
        else
            broker_stop(b);
        broker_restart(b);
        describe(&h, &j, "/sets/demo");
        assert_string_equal(jsonpath_text(&j, "title"), "Demo");
        assert_string_equal(jsonpath_text(&j, "epoch"), epoch);
        assert_int_equal(jsonpath_number(&j, "settings.rotateEntries"), 2);
        assert_int_equal(jsonpath_number(&j, "lists.closed"), round);
        jsonpath_close(&j);
        source_post(&h, "demo", 1, 2, 0);
    }
    http_close(&h);
}

/* every channel is named by its relation, and works. */
TEST(names_every_channel)
{
    static const char *const rels[] = {"self",
                                       "up",
                                       "changelist",
                                       "capabilitylist",
                                       "urn:tidings:1:memory",
                                       "changelist-archive"};
    struct broker *b = broker_of(state);
    struct follower f;
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 1, 0);
    describe(&h, &j, "/sets/demo");
    assert_null(href_of(&j, "changelist-archive")); /* nothing is closed yet */
    jsonpath_close(&j);
    source_rotate(&h, "demo");

    describe(&h, &j, "/sets/demo");
    for (size_t i = 0; i < sizeof(rels) / sizeof(rels[0]); i++) {
        const char *href = href_of(&j, rels[i]);

        assert_non_null(href);
        assert_memory_equal(href, b->url, strlen(b->url));
        assert_int_equal(http_get(&h, href + strlen(b->url)), 200);
    }
    follower_open(&f, b->port,
                  href_of(&j, "urn:tidings:1:stream") + strlen(b->url), NULL);
    follower_next(&f);
    jsonpath_close(&j);

    describe(&h, &j, "/sets/demo");
    {
        const char *const name[] = {"subscribers", "websocket-json", NULL};
        yajl_val n = yajl_tree_get(j.root, (const char **)name, yajl_t_number);

        assert_non_null(n);
        assert_int_equal(YAJL_GET_INTEGER(n), 1);
    }
    jsonpath_close(&j);
    follower_close(&f);
    http_close(&h);
}

/* Walks GET /sets, page by page; returns how many sets there are. Their names
 * are in order and none comes twice. */
static unsigned
count_sets(struct http *h, const char *url)
{
    char path[300] = "/sets", last[100] = "";
    unsigned n = 0;

    while (path[0]) {
        struct jsonpath j;
        const char *next;

        assert_int_equal(http_get(h, path), 200);
        jsonpath_open(&j, buf_slice(&h->body));
        for (unsigned i = 0; i < jsonpath_count(&j, "sets"); i++) {
            char member[64];

            snprintf(member, sizeof(member), "sets.%u.name", i);
            assert_true(strcmp(last, jsonpath_text(&j, member)) < 0);
            snprintf(last, sizeof(last), "%s", jsonpath_text(&j, member));
            n++;
        }
        next = jsonpath_text(&j, "next");
        snprintf(path, sizeof(path), "%s", next ? next + strlen(url) : "");
        jsonpath_close(&j);
    }
    return n;
}

/* Many sets: created, listed in pages, there again after kill -9. R-042: one
 * entry each. */
TEST(serves_thousands_of_sets)
{
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(count_sets(&h, b->url), 0);
    for (unsigned i = 0; i < MANY; i++) {
        char path[40];

        /* In an order of its own: 7919 is a prime. */
        snprintf(path, sizeof(path), "/sets/s%u", i * 7919 % MANY);
        assert_int_equal(put(&h, path, "{\"rotateEntries\":1}"), 201);
    }
    assert_int_equal(count_sets(&h, b->url), MANY);
    broker_kill9(b);
    broker_restart(b);
    assert_int_equal(count_sets(&h, b->url), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        char set[20];

        snprintf(set, sizeof(set), "s%u", i);
        assert_int_equal(source_post(&h, set, 1, 1, 0).last, 1);
    }
    broker_stop(b);
    broker_restart(b);
    assert_int_equal(count_sets(&h, b->url), MANY);
    assert_int_equal(http_get(&h, "/.well-known/resourcesync"), 200);
    assert_int_equal(count_urls(&h), MANY);
    assert_int_equal(http_get(&h, "/sets/s1999/changes/000000000001.xml"), 200);
    assert_int_equal(count_urls(&h), 1);

    http_get(&h, "/sets?after=No");
    assert_refused(&h, 400, "after");
    http_close(&h);
}

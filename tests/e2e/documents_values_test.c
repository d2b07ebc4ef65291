/*
 * documents_values_test.c - what was posted comes out as it was, in list,
 * message and change memory; and the times that the broker gives.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define LIST   "/sets/news/changelist.xml"
#define MEMORY "/sets/news/changes"

/* The same history, read in all ways there are. */
struct views {
    struct http http;
    struct xpath list, message; /* XML */
    struct jsonpath json_message, memory;
};

static void
open_message(struct broker *b, const char *subprotocol, struct buf *text)
{
    struct follower f;

    follower_open(&f, b->port, "/sets/news/stream?after=0", subprotocol);
    follower_news(&f);
    buf_init(text, 1 << 20);
    buf_add_slice(text, buf_slice(&f.text));
    follower_close(&f);
}

static void
views_open(struct views *v, struct broker *b)
{
    struct buf text;

    http_open(&v->http, b->url);
    assert_int_equal(http_get(&v->http, LIST), 200);
    assert_valid(buf_slice(&v->http.body));
    xpath_open(&v->list, buf_slice(&v->http.body));
    assert_int_equal(http_get(&v->http, MEMORY "?after=0"), 200);
    jsonpath_open(&v->memory, buf_slice(&v->http.body));
    open_message(b, "resourcesync.xml", &text);
    assert_valid(buf_slice(&text));
    xpath_open(&v->message, buf_slice(&text));
    buf_fini(&text);
    open_message(b, "resourcesync.json", &text);
    jsonpath_open(&v->json_message, buf_slice(&text));
    buf_fini(&text);
}

static void
views_close(struct views *v)
{
    http_close(&v->http);
    xpath_close(&v->list);
    xpath_close(&v->message);
    jsonpath_close(&v->json_message);
    jsonpath_close(&v->memory);
}

/* A value of entry `n` (from 1) in both XML views. */
static void
assert_xml(struct views *v, unsigned n, const char *what, const char *value)
{
    char expression[256];

    snprintf(expression, sizeof(expression), "string(/s:urlset/s:url[%u]/%s)",
             n, what);
    assert_xpath_text(&v->list, expression, value);
    assert_xpath_text(&v->message, expression, value);
}

/* Likewise in both JSON views; `value` NULL: it is not there. */
static void
assert_json(struct views *v, unsigned n, const char *what, const char *value)
{
    const struct jsonpath *views[] = {&v->json_message, &v->memory};
    char path[256];

    snprintf(path, sizeof(path), "changes.%u.%s", n - 1, what);
    for (size_t i = 0; i < 2; i++) {
        const char *found = jsonpath_text(views[i], path);

        if (!found)
            found = jsonpath_digits(views[i], path);
        if (!value && jsonpath_has(views[i], path))
            fail_msg("%s is there", path);
        if (value && !found)
            fail_msg("%s is not there", path);
        if (value)
            assert_string_equal(found, value);
    }
}

static void
post_json(struct broker *b, const char *body)
{
    struct http h;

    http_open(&h, b->url);
    if (source_send(&h, "news", "application/json", slice_of(body), NULL) !=
        200)
        fail_msg("%.*s", SLICE_ARG(buf_slice(&h.body)));
    http_close(&h);
}

FIXTURE(broker_setup, broker_teardown);

/* nothing is lost or doubled in escaping. */
TEST(a_loc_comes_back_as_it_was_posted)
{
    static const char *const locs[] = {
        "http://example.com/r?a=1&b=2&amp;c",
        "http://example.com/r?q='x'&range=%3C5%3E5",
        "http://example.com/\xc3\xa5lesund-\xe6\xbd\xae.csv",
        "http://example.com/%C3%A5%26%3C%22%27%25",
        "http://example.com/r?<a>\"b\"'c'&lt;>",
        "http://example.com/\xf0\x9f\x93\xa3#f",
    };
    struct broker *b = broker_of(state);
    size_t n = sizeof(locs) / sizeof(locs[0]);
    struct views v;
    struct buf body;
    struct http h;

    http_open(&h, b->url);
    for (size_t i = 0; i < n; i++) {
        buf_init(&body, 4096);
        BUF_ADD(&body, "{\"change\":\"created\",\"loc\":\"");
        for (const char *c = locs[i]; *c; c++) {
            if (*c == '"')
                BUF_ADD(&body, "\\");
            buf_add(&body, c, 1);
        }
        BUF_ADD(&body, "\"}");
        assert_int_equal(
            source_send(&h, "news", "application/json", buf_slice(&body), NULL),
            200);
        buf_fini(&body);
    }
    http_close(&h);

    views_open(&v, b);
    for (unsigned i = 0; i < n; i++) {
        assert_xml(&v, i + 1, "s:loc", locs[i]);
        assert_json(&v, i + 1, "loc", locs[i]);
    }
    views_close(&v);
}

/* R-024, from XML, with values that JSON would write otherwise. */
TEST(the_escaped_examples_come_back_as_they_were_posted)
{
    struct broker *b = broker_of(state);
    struct views v;
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(source_send_file(&h, "news", "foreign-and-escaped.xml"),
                     200);
    http_close(&h);
    views_open(&v, b);
    assert_xml(&v, 1, "s:loc",
               "http://example.com/gauges/r?place=a&kind=b&q='x'&range=<5>5");
    assert_json(&v, 1, "loc",
                "http://example.com/gauges/r?place=a&kind=b&q='x'&range=<5>5");
    assert_xml(&v, 1,
               "rs:md/@*[local-name()='tags' and "
               "namespace-uri()='http://example.com/terms/']",
               "estuary spring-tide");
    assert_xml(&v, 1, "rs:md/@type",
               "application/vnd.example+json; charset=utf-8");
    assert_json(&v, 1, "type", "application/vnd.example+json; charset=utf-8");
    assert_json(&v, 1, "attributes.0.ns", "http://example.com/terms/");
    assert_json(&v, 1, "attributes.0.name", "id");
    assert_json(&v, 1, "attributes.0.value", "4711");
    assert_json(&v, 1, "attributes.1.name", "tags");
    assert_json(&v, 1, "hash.sha-1",
                "3ac63f2b416dfd4bfdaa1ab1ddabdc83bfc9226c");
    assert_xml(&v, 2, "s:loc",
               "http://example.com/gauges/r/%C3%A5lesund%20%28old%29.csv");
    assert_xml(&v, 3, "s:loc",
               "http://example.com/gauges/r/\xc3\xa5lesund-\xe6\xbd\xae.csv");
    assert_json(&v, 3, "loc",
                "http://example.com/gauges/r/\xc3\xa5lesund-\xe6\xbd\xae.csv");
    assert_xml(&v, 3, "rs:md/@length", "0");
    assert_json(&v, 3, "length", "0");
    views_close(&v);
}

/* links and foreign attributes, unchanged and in order. */
TEST(links_come_out_unchanged_and_in_order)
{
    static const struct {
        const char *rel;
        const char *attribute, *value; /* besides rel and href; or NULL */
    } links[] = {
        {"via", NULL, NULL},
        {"duplicate", "pri", "2"},
        {"duplicate", "pri", "1"},
        {"alternate", "type", "text/html"},
        {"canonical", NULL, NULL},
        {"describedby", NULL, NULL},
        {"memento", "modified", "2026-04-05T09:59:00Z"},
        {"timegate", NULL, NULL},
        {"timemap", "type", "application/link-format"},
        {"collection", NULL, NULL},
        {"profile", NULL, NULL},
        {"http://example.org/rel/z", NULL, NULL},
        {"http://www.openarchives.org/rs/terms/patch", "length", "3"},
    };
    struct broker *b = broker_of(state);
    unsigned n = sizeof(links) / sizeof(links[0]);
    struct views v;
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(source_send_file(&h, "news", "odd/links.xml"), 200);
    http_close(&h);
    views_open(&v, b);
    assert_xpath_count(&v.list, "/s:urlset/s:url/rs:ln", n);
    assert_xpath_count(&v.message, "/s:urlset/s:url/rs:ln", n);
    assert_int_equal(jsonpath_count(&v.memory, "changes.0.links"), n);
    assert_int_equal(jsonpath_count(&v.json_message, "changes.0.links"), n);
    for (unsigned i = 0; i < n; i++) {
        char what[64], href[64];

        snprintf(href, sizeof(href), "http://example.com/l/%u", i);
        snprintf(what, sizeof(what), "rs:ln[%u]/@rel", i + 1);
        assert_xml(&v, 1, what, links[i].rel);
        snprintf(what, sizeof(what), "rs:ln[%u]/@href", i + 1);
        assert_xml(&v, 1, what, href);
        snprintf(what, sizeof(what), "links.%u.rel", i);
        assert_json(&v, 1, what, links[i].rel);
        snprintf(what, sizeof(what), "links.%u.href", i);
        assert_json(&v, 1, what, href);
        if (!links[i].attribute)
            continue;
        snprintf(what, sizeof(what), "rs:ln[%u]/@%s", i + 1,
                 links[i].attribute);
        assert_xml(&v, 1, what, links[i].value);
        snprintf(what, sizeof(what), "links.%u.%s", i, links[i].attribute);
        assert_json(&v, 1, what, links[i].value);
    }
    /* b before a, as posted. */
    assert_xml(&v, 1, "rs:md/@*[namespace-uri()='http://example.org/terms/']",
               "2");
    assert_json(&v, 1, "attributes.0.name", "b");
    assert_json(&v, 1, "attributes.0.value", "2");
    assert_json(&v, 1, "attributes.1.name", "a");
    assert_json(&v, 1, "attributes.1.value", "1");
    assert_json(&v, 1, "links.11.attributes.0.name", "c");
    assert_json(&v, 1, "links.11.attributes.0.value", "3");
    assert_xml(&v, 1, "rs:ln[12]/@*[local-name()='c']", "3");
    views_close(&v);
}

/* what describes the resource is its own. */
TEST(describes_the_resource_as_posted)
{
    struct broker *b = broker_of(state);
    struct views v;

    post_json(b, "[{\"loc\":\"http://example.com/old\",\"change\":\"updated\","
                 "\"lastmod\":\"2000-02-29T12:00:00Z\","
                 "\"hash\":{\"md5\":\"0123456789abcdef0123456789abcdef\"},"
                 "\"length\":9007199254740993,\"type\":\"text/csv\","
                 "\"encoding\":\"gzip\",\"changefreq\":\"daily\","
                 "\"priority\":\"0.5\",\"tags\":[\"a\",\"b\"]},"
                 "{\"loc\":\"http://example.com/gone\","
                 "\"change\":\"deleted\"}]");
    views_open(&v, b);

    assert_xml(&v, 1, "s:lastmod", "2000-02-29T12:00:00Z");
    assert_json(&v, 1, "lastmod", "2000-02-29T12:00:00Z");
    assert_xml(&v, 1, "rs:md/@hash", "md5:0123456789abcdef0123456789abcdef");
    assert_json(&v, 1, "hash.md5", "0123456789abcdef0123456789abcdef");
    assert_xml(&v, 1, "rs:md/@length", "9007199254740993");
    assert_json(&v, 1, "length", "9007199254740993");
    assert_xml(&v, 1, "rs:md/@type", "text/csv");
    assert_json(&v, 1, "type", "text/csv");
    assert_xml(&v, 1, "rs:md/@encoding", "gzip");
    assert_json(&v, 1, "encoding", "gzip");
    assert_xml(&v, 1, "s:changefreq", "daily");
    assert_json(&v, 1, "changefreq", "daily");
    assert_xml(&v, 1, "s:priority", "0.5");
    assert_json(&v, 1, "priority", "0.5");
    assert_xml(&v, 1, "rs:md/@td:tags", "a b"); /* */
    assert_json(&v, 1, "tags.1", "b");
    assert_xml(&v, 2, "rs:md/@change", "deleted");
    assert_xml(&v, 2, "rs:md/@*[namespace-uri()=''][3]", "");
    assert_json(&v, 2, "length", NULL);
    assert_json(&v, 2, "lastmod", NULL);
    views_close(&v);
}

/* R-133, I-13: a resource that changes five times is listed five times. */
TEST(repeated_changes_are_listed_one_by_one)
{
    static const char *const changes[] = {"created", "updated", "updated",
                                          "deleted", "created"};
    struct broker *b = broker_of(state);
    struct views v;
    struct http h;

    http_open(&h, b->url);
    assert_int_equal(source_send_file(&h, "news", "odd/same-resource.xml"),
                     200);
    http_close(&h);
    views_open(&v, b);
    assert_xpath_count(&v.list, "/s:urlset/s:url", 5);
    for (unsigned i = 1; i <= 5; i++) {
        assert_xml(&v, i, "rs:md/@change", changes[i - 1]);
        assert_json(&v, i, "change", changes[i - 1]);
        assert_xml(&v, i, "s:loc", "http://example.com/gauges/r/haven.csv");
    }
    views_close(&v);
}

/* a source's time that is later than all told is the event's; a
 * late one is not, but is kept beside it; so is one from the future. */
TEST(a_late_datetime_does_not_disturb_the_order)
{
    struct broker *b = broker_of(state);
    const char *before;
    struct views v;

    post_json(b, "{\"loc\":\"http://example.com/r/1\",\"change\":\"created\"}");
    post_json(b, "{\"loc\":\"http://example.com/r/2\",\"change\":\"created\","
                 "\"datetime\":\"2001-01-01T00:00:00Z\"}");
    post_json(b, "{\"loc\":\"http://example.com/r/3\",\"change\":\"created\","
                 "\"datetime\":\"2999-01-01T00:00:00.5Z\"}");
    views_open(&v, b);

    assert_xml(&v, 1, "s:loc", "http://example.com/r/1");
    assert_xml(&v, 1, "rs:md/@td:datetime", "");
    assert_xml(&v, 2, "s:loc", "http://example.com/r/2");
    assert_xml(&v, 2, "rs:md/@td:datetime", "2001-01-01T00:00:00Z");
    assert_json(&v, 2, "sourceDatetime", "2001-01-01T00:00:00Z");
    assert_xml(&v, 3, "rs:md/@td:datetime", "2999-01-01T00:00:00.5Z");
    assert_json(&v, 3, "sourceDatetime", "2999-01-01T00:00:00.5Z");
    before = xpath_get(&v.list, "string(/s:urlset/rs:md/@from)");
    for (unsigned i = 1; i <= 3; i++) {
        char expression[64];
        const char *time;

        snprintf(expression, sizeof(expression),
                 "string(/s:urlset/s:url[%u]/rs:md/@datetime)", i);
        time = xpath_get(&v.list, expression);
        assert_true(strcmp(before, time) < 0);
        before = time;
    }
    assert_true(strcmp(before, "2999") < 0);
    views_close(&v);
}

/* posts from several clients at once. */

struct poster {
    unsigned number, port;
    bool is_posted;
    pthread_t thread;
};

static void *
post_some(void *user)
{
    struct poster *p = user;
    struct wire *w = wire_connect("127.0.0.1", p->port);
    struct wire_answer a;

    p->is_posted = w != NULL;
    for (unsigned i = 0; p->is_posted && i < 100; i++) {
        char body[128];

        snprintf(body, sizeof(body),
                 "{\"loc\":\"http://example.com/%u/%u\","
                 "\"change\":\"created\"}",
                 p->number, i);
        p->is_posted =
            wire_request(w, "POST", MEMORY,
                         "Content-Type: application/json\r\n", body, &a) &&
            a.status == 200;
    }
    wire_close(w);
    return NULL;
}

TEST(posts_of_several_clients_are_in_one_order)
{
    struct broker *b = broker_of(state);
    struct poster posters[4];
    struct notice n;
    struct http h;
    unsigned next[4] = {0};

    for (unsigned i = 0; i < 4; i++) {
        posters[i] = (struct poster){.number = i, .port = b->port};
        assert_int_equal(
            pthread_create(&posters[i].thread, NULL, post_some, &posters[i]),
            0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(posters[i].thread, NULL);
    for (unsigned i = 0; i < 4; i++)
        assert_true(posters[i].is_posted);

    http_open(&h, b->url);
    assert_int_equal(http_get(&h, MEMORY), 200);
    notice_read(&n, NOTICE_JSON, buf_slice(&h.body));
    notice_check(&n); /* seqs without a hole, times that grow */
    assert_int_equal(n.n, 400);
    for (size_t i = 0; i < n.n; i++) {
        unsigned poster, number;

        assert_int_equal(sscanf(n.entries[i].loc, "http://example.com/%u/%u",
                                &poster, &number),
                         2);
        assert_int_equal(number, next[poster]++);
    }
    notice_free(&n);
    http_close(&h);
}

/*
 * topics_test.c - a set's topic of changes: what its address answers, and that
 * the document there is the latest notification (R-280 to R-292, W-083, W-148).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define TOPIC     "/sets/" LISTS_SET "/notifications"
#define FRAMEWORK "/sets/" LISTS_SET "/framework-notifications"

static void
put_set(struct lists *l, const char *name)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    char path[100];

    snprintf(path, sizeof(path), "/sets/%s", name);
    assert_int_equal(http_request(&l->http, "PUT", path, json, SLICE("{}")),
                     201);
}

/* What a discovering subscriber wants of an answer (W-083: in one line). */
static void
assert_discovery(struct lists *l, const char *topic)
{
    const char *url = l->broker.url;
    char wanted[600];

    assert_string_equal(http_header(&l->http, "Content-Type"),
                        "application/xml");
    snprintf(wanted, sizeof(wanted),
             "<%s/hub>; rel=\"hub\", <%s%s>; rel=\"self\", "
             "<%s/sets/" LISTS_SET "/capabilitylist.xml>; "
             "rel=\"resourcesync\"",
             url, url, topic, url);
    assert_string_equal(http_header(&l->http, "Link"), wanted);
}

FIXTURE(lists_setup, lists_teardown);

/* W-141: GET and HEAD, before and after the first change. */
TEST(a_topic_names_its_hub_and_itself)
{
    static const char *const topics[] = {TOPIC, FRAMEWORK};
    struct lists *l = *state;
    char size[30];

    LISTS_OPEN(l, "--threads", "1");
    put_set(l, LISTS_SET);
    assert_int_equal(http_get(&l->http, TOPIC), 200);
    assert_discovery(l, TOPIC);
    assert_string_equal(http_header(&l->http, "Content-Length"), "0");
    assert_int_equal(http_ask(&l->http, "HEAD", TOPIC, NULL), 200);
    assert_discovery(l, TOPIC);
    assert_string_equal(http_header(&l->http, "Content-Length"), "0");

    source_post(&l->http, LISTS_SET, 1, 3, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(http_get(&l->http, topics[i]), 200);
        assert_discovery(l, topics[i]);
        assert_true(l->http.body.size > 0);
        assert_valid(buf_slice(&l->http.body));
        snprintf(size, sizeof(size), "%zu", l->http.body.size);
        assert_string_equal(http_header(&l->http, "Content-Length"), size);
        assert_int_equal(http_ask(&l->http, "HEAD", topics[i], NULL), 200);
        assert_discovery(l, topics[i]);
        assert_string_equal(http_header(&l->http, "Content-Length"), size);
        assert_int_equal(l->http.body.size, 0);
    }
}

/* As other documents: an ETag that answers, no other method, no other set. One
 * representation, whatever is asked for (W-012). */
TEST(a_topic_is_a_document_like_others)
{
    struct lists *l = *state;
    char condition[120];

    LISTS_OPEN(l, "--threads", "1");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    assert_int_equal(http_get(&l->http, TOPIC), 200);
    assert_string_equal(http_header(&l->http, "Cache-Control"), "no-cache");
    snprintf(condition, sizeof(condition), "If-None-Match: %s",
             http_header(&l->http, "ETag"));
    assert_int_equal(http_ask(&l->http, "GET", TOPIC, condition, NULL), 304);
    assert_int_equal(http_ask(&l->http, "GET", TOPIC, condition,
                              "Accept: application/json", "Accept-Language: de",
                              NULL),
                     304);
    source_post(&l->http, LISTS_SET, 4, 1, 0);
    assert_int_equal(http_ask(&l->http, "GET", TOPIC, condition, NULL), 200);

    assert_int_equal(http_post(&l->http, TOPIC, "text/plain", SLICE("x")), 405);
    assert_string_equal(http_header(&l->http, "Allow"), "GET, HEAD");
    assert_int_equal(http_get(&l->http, "/sets/none/notifications"), 404);
    assert_int_equal(http_get(&l->http, "/sets/_framework/notifications"), 404);
    assert_int_equal(http_ask(&l->http, "DELETE", "/sets/" LISTS_SET, NULL),
                     204);
    assert_int_equal(http_get(&l->http, TOPIC), 410);
    assert_int_equal(http_get(&l->http, FRAMEWORK), 410);
}

static void
get(struct lists *l, const char *path, struct xpath *x)
{
    if (http_get(&l->http, path) != 200)
        fail_msg("%s: %ld", path, l->http.status);
    assert_valid(buf_slice(&l->http.body));
    xpath_open(x, buf_slice(&l->http.body));
}

/* W-141: each set has two, which its
 * Capability List and its JSON name as soon as it is there, with the hub. */
TEST(every_set_advertises_two_topics_of_its_own)
{
    static const char *const sets[] = {LISTS_SET, "other"};
    static const char *const channels[][2] = {
        {"change-notification", "notifications"},
        {"framework-notification", "framework-notifications"},
    };
    struct lists *l = *state;

    LISTS_OPEN(l, "--threads", "1");
    put_set(l, LISTS_SET);
    source_post(&l->http, "other", 1, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        const char *set = sets[i / 2], *capability = channels[i % 2][0];
        char path[100], question[200], topic[200], hub[100];
        struct jsonpath j;
        struct xpath x;
        bool is_named = false;

        snprintf(topic, sizeof(topic), "%s/sets/%s/%s", l->broker.url, set,
                 channels[i % 2][1]);
        snprintf(hub, sizeof(hub), "%s/hub", l->broker.url);
        snprintf(path, sizeof(path), "/sets/%s/capabilitylist.xml", set);
        get(l, path, &x);
        snprintf(question, sizeof(question),
                 "/s:urlset/s:url[rs:md/@capability='%s']/s:loc", capability);
        assert_xpath_count(&x, question, 1);
        assert_xpath_text(&x, question, topic);
        snprintf(question, sizeof(question),
                 "/s:urlset/s:url[rs:md/@capability='%s']"
                 "/rs:ln[@rel='hub']/@href",
                 capability);
        assert_xpath_count(&x, question, 1);
        assert_xpath_text(&x, question, hub);
        xpath_close(&x);

        snprintf(path, sizeof(path), "/sets/%s", set);
        assert_int_equal(http_get(&l->http, path), 200);
        jsonpath_open(&j, buf_slice(&l->http.body));
        for (size_t k = 0; k < jsonpath_count(&j, "links"); k++) {
            snprintf(path, sizeof(path), "links.%zu.rel", k);
            if (strcmp(jsonpath_text(&j, path), capability) != 0)
                continue;
            snprintf(path, sizeof(path), "links.%zu.href", k);
            assert_string_equal(jsonpath_text(&j, path), topic);
            is_named = true;
        }
        jsonpath_close(&j);
        assert_true(is_named);
    }
}

/* The entries of a document, as they stand. */
static struct slice
entries_of(const struct buf *body)
{
    const char *from = memmem(body->data, body->size, "<url>", 5);
    const char *to = memmem(body->data, body->size, "</urlset>", 9);

    assert_non_null(from);
    assert_non_null(to);
    return (struct slice){from, (size_t)(to - from)};
}

/* W-143: the entries of the interval, all of them,
 * as the Change List has them. */
TEST(a_notification_has_what_the_change_list_has)
{
    struct lists *l = *state;
    struct slice entries;
    struct buf list;
    struct xpath x;

    LISTS_OPEN(l, "--threads", "1");
    source_post(&l->http, LISTS_SET, 1, 4, 0);
    source_post(&l->http, LISTS_SET, 5, 7, 200);
    list = lists_copy(l, 1);
    get(l, TOPIC, &x);
    assert_xpath_count(
        &x, "/s:urlset/rs:md[@capability='change-notification'][@from][@until]",
        1);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href",
                      xpath_get(&x, "string(/s:urlset/rs:ln/@href)"));
    assert_xpath_count(&x, "/s:urlset/s:url", 7);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "4");
    assert_xpath(&x, "/s:urlset/rs:md/@until ="
                     " /s:urlset/s:url[7]/rs:md/@datetime");
    for (unsigned i = 1; i < 7; i++) {
        char one[100], next[100];

        snprintf(one, sizeof(one), "string(/*/s:url[%u]/rs:md/@datetime)", i);
        snprintf(next, sizeof(next), "string(/*/s:url[%u]/rs:md/@datetime)",
                 i + 1);
        assert_true(strcmp(xpath_get(&x, one), xpath_get(&x, next)) < 0);
    }
    entries = entries_of(&l->http.body);
    assert_non_null(memmem(list.data, list.size, entries.data, entries.size));
    xpath_close(&x);
    buf_fini(&list);
}

/* each begins where the one before it ended, over a restart, too. */
TEST(a_thousand_notifications_follow_each_other)
{
    struct lists *l = *state;
    char until[64] = "", after[32] = "0";

    LISTS_OPEN(l, "--rotate-entries", "300");
    for (unsigned i = 0; i < 1000; i++) {
        struct xpath x;

        if (i == 500) {
            broker_stop(&l->broker);
            broker_restart(&l->broker);
        }
        source_post(&l->http, LISTS_SET, i, 1 + i % 3, 0);
        assert_int_equal(http_get(&l->http, TOPIC), 200);
        xpath_open(&x, buf_slice(&l->http.body));
        assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", after);
        if (i > 0)
            assert_xpath_text(&x, "/s:urlset/rs:md/@from", until);
        assert_xpath_count(&x, "/s:urlset/s:url", 1 + i % 3);
        snprintf(until, sizeof(until), "%s",
                 xpath_get(&x, "string(/s:urlset/rs:md/@until)"));
        snprintf(after, sizeof(after), "%s",
                 xpath_get(&x, "string(/s:urlset/rs:md/@td:last)"));
        xpath_close(&x);
    }
}

/* a large post comes as several, each a urlset. */
TEST(a_burst_is_told_in_parts)
{
    struct lists *l = *state;
    unsigned after;
    struct xpath x;

    LISTS_OPEN(l, "--message-bytes", "16M");
    source_post(&l->http, LISTS_SET, 1, 60000, 0);
    get(l, TOPIC, &x);
    assert_xpath(&x, "/s:urlset");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "60000");
    after = (unsigned)strtoul(
        xpath_get(&x, "string(/s:urlset/rs:md/@td:after)"), NULL, 10);
    assert_int_equal(after, 50000);
    assert_xpath_count(&x, "/s:urlset/s:url", 10000);
    assert_in_range(l->http.body.size, 1, 52428800);
    xpath_close(&x);
}

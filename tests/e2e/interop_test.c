/*
 * interop_test.c - a running broker's documents, read by the rules of the
 * public reference client: what it can and what it cannot do (requirements.md,
 * part 15).
 *
 * It finds the Capability List from the base URI if there is only one, takes
 * the document that the capability names without following `up`, `index` or
 * `archives`, reads a `urlset` and no `sitemapindex` of changes, gives up at a
 * change without datetime, and misreads times that do not end in Z.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define URL_SIZE     300
#define CHANGES_MAX  100
#define DESCRIPTION  "/.well-known/resourcesync"
#define CAPABILITIES "/sets/one/capabilitylist.xml"

struct reference {
    struct broker *broker;
    struct http http;
    char locs[CHANGES_MAX][URL_SIZE]; /* of the changes it has read */
    size_t n;
};

static int
set_up(void **state)
{
    struct reference *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    r->broker = calloc(1, sizeof(*r->broker));
    assert_non_null(r->broker);
    broker_open(r->broker, "--rotate-entries", "3", NULL);
    http_open(&r->http, r->broker->url);
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct reference *r = *state;

    http_close(&r->http);
    broker_stop(r->broker);
    broker_close(r->broker);
    free(r->broker);
    free(r);
    return 0;
}

/* GETs a document of the broker by its URL, with a Content-Type. */
static void
get(struct reference *r, const char *url, struct xpath *x)
{
    size_t base = strlen(r->broker->url);

    assert_int_equal(strncmp(url, r->broker->url, base), 0);
    assert_int_equal(http_get(&r->http, url + base), 200);
    assert_string_equal(http_header(&r->http, "Content-Type"),
                        "application/xml");
    xpath_open(x, buf_slice(&r->http.body));
}

/* The Capability List that the base URI leads to; false: there are several, so
 * the client has to be told. */
static bool
find_capabilities(struct reference *r, char *url)
{
    char description[URL_SIZE];
    struct xpath x;
    bool is_one = false;

    snprintf(description, sizeof(description), "%s" DESCRIPTION,
             r->broker->url);
    get(r, description, &x);
    assert_xpath_text(&x, "/s:urlset/rs:md/@capability", "description");
    is_one =
        xpath_count(&x, "//s:url[rs:md/@capability='capabilitylist']") == 1;
    snprintf(url, URL_SIZE, "%s", xpath_get(&x, "//s:url/s:loc"));
    xpath_close(&x);
    return is_one;
}

/* What the Capability List names as its Change List. */
static void
find_changes(struct reference *r, const char *capabilities, char *url)
{
    struct xpath x;

    get(r, capabilities, &x);
    assert_xpath_text(&x, "/s:urlset/rs:md/@capability", "capabilitylist");
    snprintf(url, URL_SIZE, "%s",
             xpath_get(&x, "//s:url[rs:md/@capability='changelist']/s:loc"));
    xpath_close(&x);
}

/* Reads a Change List as an incremental run does. */
static void
read_changes(struct reference *r, const char *url)
{
    struct xpath x;
    char path[100];
    size_t n = 0;

    get(r, url, &x);
    assert_xpath(&x, "/s:urlset/rs:md[@capability='changelist']");
    assert_xpath_count(&x, "//s:url[not(rs:md/@change)]", 0);
    /* it aborts at a change without. */
    assert_xpath_count(&x, "//s:url[not(rs:md/@datetime)]", 0);
    n = xpath_count(&x, "//s:url");
    for (size_t i = 0; i < n; i++) {
        assert_in_range(r->n, 0, CHANGES_MAX - 1);
        snprintf(path, sizeof(path), "string(//s:url[%zu]/s:loc)", i + 1);
        snprintf(r->locs[r->n++], URL_SIZE, "%s", xpath_get(&x, path));
    }
    xpath_close(&x);
}

/* What it has read are the changes that source_post made, in order. */
static void
assert_read(const struct reference *r, size_t n)
{
    char loc[URL_SIZE];

    assert_int_equal(r->n, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(loc, sizeof(loc), "http://example.com/r/%zu", i);
        assert_string_equal(r->locs[i], loc);
    }
}

FIXTURE(set_up, tear_down);

/* while there is one list, the capability's address is it. */
TEST(needs_only_the_base_uri_of_a_source_with_one_set)
{
    struct reference *r = *state;
    char url[URL_SIZE];

    source_post(&r->http, "one", 0, 2, 0);
    assert_true(find_capabilities(r, url));
    find_changes(r, url, url);
    read_changes(r, url);
    assert_read(r, 2);
}

/* */
TEST(needs_the_capability_list_where_there_are_several_sets)
{
    struct reference *r = *state;
    char url[URL_SIZE], own[URL_SIZE];

    source_post(&r->http, "one", 0, 2, 0);
    source_post(&r->http, "two", 50, 2, 0);
    assert_false(find_capabilities(r, url));
    snprintf(own, sizeof(own), "%s" CAPABILITIES, r->broker->url);
    find_changes(r, own, url);
    read_changes(r, url);
    assert_read(r, 2);
}

/* from the first rotation on the same address is an index, which
 * it cannot read; but each list has an address from its first day on that it
 * can be given, and the order of the addresses is that of time. */
TEST(reads_each_list_by_its_own_address)
{
    struct reference *r = *state;
    char capabilities[URL_SIZE], index[URL_SIZE], path[100];
    char open[URL_SIZE], lists[20][URL_SIZE];
    struct xpath x;
    size_t n = 0;

    source_post(&r->http, "one", 0, 31, 0);
    snprintf(capabilities, sizeof(capabilities), "%s" CAPABILITIES,
             r->broker->url);
    find_changes(r, capabilities, index);
    get(r, index, &x);
    assert_xpath(&x, "/s:sitemapindex/rs:md[@capability='changelist']");
    n = xpath_count(&x, "//s:sitemap");
    assert_int_equal(n, 11);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "string(//s:sitemap[%zu]/s:loc)", i + 1);
        snprintf(lists[i], URL_SIZE, "%s", xpath_get(&x, path));
        assert_true(i == 0 || strcmp(lists[i - 1], lists[i]) < 0);
    }
    xpath_close(&x);
    for (size_t i = 0; i < n; i++)
        read_changes(r, lists[i]);
    assert_read(r, 31);

    /* The open one keeps its address when it closes. */
    snprintf(open, sizeof(open), "%s", lists[n - 1]);
    source_post(&r->http, "one", 31, 3, 0);
    r->n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        read_changes(r, lists[i]);
    read_changes(r, open);
    assert_read(r, 33);
}

/* a source's offsets and precisions are its own affair. */
TEST(finds_only_times_in_utc)
{
    static const char body[] =
        "[{\"loc\":\"http://example.com/a\",\"change\":\"updated\","
        "\"lastmod\":\"2016-02-03T04:05:06+02:00\","
        "\"datetime\":\"2016-02-03T04:05:06.123-11:30\"},"
        "{\"loc\":\"http://example.com/b\",\"change\":\"created\","
        "\"lastmod\":\"2016-02-03T04:05Z\",\"links\":[{\"rel\":\"memento\","
        "\"href\":\"http://example.com/b/1\","
        "\"modified\":\"2016-02-03T04:05:06+02:00\"}]}]";
    struct reference *r = *state;
    char capabilities[URL_SIZE], url[URL_SIZE];
    struct xpath x;

    assert_int_equal(
        source_send(&r->http, "one", "application/json", slice_of(body), NULL),
        200);
    snprintf(capabilities, sizeof(capabilities), "%s" CAPABILITIES,
             r->broker->url);
    find_changes(r, capabilities, url);
    get(r, url, &x);
    assert_xpath_count(
        &x,
        "(//s:lastmod | //@datetime | //@from | //@until | //@modified)"
        "[substring(., string-length(.)) != 'Z']",
        0);
    assert_xpath_count(&x, "//s:lastmod | //@datetime | //@modified", 5);
    xpath_close(&x);
}

/* */
TEST(finds_a_content_type_on_everything)
{
    static const char *const paths[] = {
        DESCRIPTION,
        CAPABILITIES,
        "/sets/one/changelist.xml",
        "/sets/one/changelist-archive.xml",
        "/sets/one/changes/000000000001.xml",
        "/sets/one/changes/000000000002.xml",
        "/sets/one/changes?after=0",
        "/healthz",
        "/sets/none/capabilitylist.xml", /* 404 */
        "/sets/one/changes?after=x",     /* 400 */
        "/nowhere",
    };
    struct reference *r = *state;

    source_post(&r->http, "one", 0, 4, 0);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_not_equal(http_get(&r->http, paths[i]), 0);
        assert_int_not_equal(r->http.body.size, 0);
        if (!http_header(&r->http, "Content-Type"))
            fail_msg("%s: no Content-Type", paths[i]);
    }
}

/*
 * documents_test.c - the documents of a broker: what each of them must have,
 * and that all are reached from the Source Description and lead back to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/patience.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define DESCRIPTION "/.well-known/resourcesync"

/* Three sets: "alpha" has its first list, "beta" three closed ones and an open
 * one, "gamma" a closed one and an empty open one. */
struct stage {
    struct broker broker;
    struct http http;
};

/* From some second on the header of a closed list tells since when it is one.
 */
static void
await_final(struct stage *s, const char *path)
{
    struct patience p = {.with = path};

    do {
        patience_step(&p);
        assert_int_equal(http_get(&s->http, path), 200);
    } while (!http_header(&s->http, "Last-Modified"));
}

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--rotate-entries", "5", "--index-lists", "2",
                NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "alpha", 0, 3, 0);
    source_post(&s->http, "beta", 0, 17, 0);
    source_post(&s->http, "gamma", 0, 2, 0);
    source_rotate(&s->http, "gamma");
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

static void
get(struct stage *s, const char *path, struct xpath *x)
{
    if (http_get(&s->http, path) != 200)
        fail_msg("%s: %ld", path, s->http.status);
    xpath_open(x, buf_slice(&s->http.body));
}

/* Every document */

/* All values of an expression are complete times in UTC. */
static void
assert_times(struct xpath *x, const char *expression)
{
    char bad[512];

    snprintf(bad, sizeof(bad),
             "not((%s)[translate(substring(., 1, 19), '123456789', "
             "'000000000') != '0000-00-00T00:00:00' or "
             "substring(., string-length(.)) != 'Z'])",
             expression);
    assert_xpath(x, bad);
}

/* as far as one document shows them. */
static void
check_document(struct stage *s, struct xpath *x)
{
    struct slice body = buf_slice(&s->http.body);

    assert_true(
        slice_starts(body, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"));
    assert_null(memmem(body.data, body.size, "<!DOCTYPE", 9));
    assert_in_range(body.size, 1, 52428800); /* */
    assert_valid(body);                      /* */
    assert_xpath(x, "/s:urlset or /s:sitemapindex");
    assert_xpath_count(x, "/*/rs:md[@capability]", 1); /* */
    assert_xpath_count(x, "/*/rs:md", 1);
    /* no names but the Sitemap's and ResourceSync's. */
    assert_xpath_count(x, "//*[not(self::s:* or self::rs:*)]", 0);
    assert_xpath_count(x, "//rs:*[not(self::rs:md or self::rs:ln)]", 0);
    /* what is ours is an attribute with our prefix. */
    assert_xpath_count(x,
                       "//rs:*/@*[namespace-uri() != '' and "
                       "namespace-uri() != 'urn:tidings:1']",
                       0);
    assert_xpath_count(x, "/*/*[preceding-sibling::s:*][self::rs:*]", 0);
    assert_xpath(x, "count(/*/s:*) = count(/*/s:*/s:loc)"); /* */
    assert_xpath_count(x, "/*/s:*/@*", 0);                  /* */
    assert_xpath_count(x, "/*/s:*[count(rs:md) > 1]", 0);   /* */
    assert_xpath_count(x, "//rs:ln[not(@rel and @href)]", 0);
    assert_xpath_count(x, "//rs:ln[not(contains(@href, '://'))]", 0);
    assert_times(x, "//@from | //@until | //@datetime | //s:lastmod");
    assert_xpath_count(x, "//@at | //@completed", 0); /* */
    assert_xpath(x, "count(/*/s:*) <= 50000");        /* */
    if (xpath_count(x, "/s:urlset/rs:md[@capability='changelist' or "
                       "@capability='change-notification' or "
                       "@capability='framework-notification']") == 0)
        assert_xpath_count(x, "//@change", 0);  /* */
    if (xpath_count(x, "/*/rs:md[@until]") > 0) /* */
        assert_true(strcmp(xpath_get(x, "string(/*/rs:md/@from)"),
                           xpath_get(x, "string(/*/rs:md/@until)")) <= 0);
}

/* The headers of the last answer without its Date, which may be another a
 * moment later; the caller's. */
static char *
copy_headers(struct stage *s)
{
    const struct buf *from = &s->http.headers;
    char *headers = calloc(1, from->size + 1), *date, *next;

    assert_non_null(headers);
    memcpy(headers, from->data, from->size);
    date = strstr(headers, "\r\nDate:");
    assert_non_null(date);
    next = strstr(date + 2, "\r\n");
    assert_non_null(next);
    memmove(date, next, strlen(next) + 1);
    return headers;
}

/* */
static void
check_headers(struct stage *s, const char *path)
{
    char *headers, *of_head;

    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "application/xml");
    assert_int_equal(
        strtoull(http_header(&s->http, "Content-Length"), NULL, 10),
        s->http.body.size);
    headers = copy_headers(s);
    assert_int_equal(
        http_request(&s->http, "HEAD", path, NULL, (struct slice){NULL, 0}),
        200);
    assert_int_equal(s->http.body.size, 0);
    of_head = copy_headers(s);
    assert_string_equal(headers, of_head);
    free(of_head);
    free(headers);
}

/* The walk */

struct walk {
    struct stage *stage;
    char paths[64][128];
    size_t n;
};

static size_t
place_of(const struct walk *w, const char *path)
{
    size_t i = 0;

    while (i < w->n && strcmp(w->paths[i], path) != 0)
        i++;
    return i;
}

/* an address of ours begins with the public URL. */
static const char *
path_of(struct stage *s, const char *url)
{
    size_t size = strlen(s->broker.url);

    if (strncmp(url, s->broker.url, size) != 0 || url[size] != '/')
        fail_msg("not an address of ours: %s", url);
    return url + size;
}

static void
note(struct walk *w, const char *path)
{
    if (place_of(w, path) < w->n)
        return;
    assert_true(w->n < 64);
    snprintf(w->paths[w->n++], sizeof(w->paths[0]), "%s", path);
}

/* Notes all that the nodes name. */
static void
note_all(struct walk *w, struct xpath *x, const char *expression)
{
    size_t n = xpath_count(x, expression);

    for (size_t i = 1; i <= n; i++) {
        char one[160];

        snprintf(one, sizeof(one), "string((%s)[%zu])", expression, i);
        note(w, path_of(w->stage, xpath_get(x, one)));
    }
}

/* up, and up again, is the Source Description. */
static void
climb(struct stage *s, const char *from)
{
    char path[128];
    int steps = 0;

    snprintf(path, sizeof(path), "%s", from);
    while (strcmp(path, DESCRIPTION) != 0) {
        struct xpath x;

        assert_in_range(++steps, 1, 2);
        get(s, path, &x);
        assert_xpath_count(&x, "/*/rs:ln[@rel='up']", 1);
        snprintf(path, sizeof(path), "%s",
                 path_of(s, xpath_get(&x, "string(/*/rs:ln/@href)")));
        xpath_close(&x);
    }
}

static void
walk(struct walk *w, struct stage *s)
{
    *w = (struct walk){.stage = s};
    note(w, DESCRIPTION);
    for (size_t i = 0; i < w->n; i++) {
        struct xpath x;

        get(s, w->paths[i], &x);
        check_document(s, &x);
        /* Not pages for people, and not what is no document. */
        note_all(w, &x,
                 "/*/rs:ln[@rel!='describedby' and"
                 " not(starts-with(@rel, 'urn:'))]/@href");
        /* What a Change List or a Change Notification lists is not ours. */
        if (!xpath_count(&x, "/s:urlset/rs:md[@capability='changelist' or"
                             " @capability='change-notification']"))
            note_all(w, &x, "/*/s:*/s:loc");
        xpath_close(&x);
        check_headers(s, w->paths[i]);
        climb(s, w->paths[i]);
    }
}

FIXTURE(set_up, tear_down);

/* everything is found from the top, is as it must be,
 * and leads back. */
TEST(every_document_is_reached_is_right_and_leads_back)
{
    static const char *const wanted[] = {
        DESCRIPTION,
        "/sets/alpha/capabilitylist.xml",
        "/sets/alpha/changelist.xml",
        "/sets/alpha/changes/latest.xml",
        "/sets/alpha/notifications",
        "/sets/alpha/framework-notifications",
        "/sets/beta/capabilitylist.xml",
        "/sets/beta/notifications",
        "/sets/beta/framework-notifications",
        "/sets/beta/changelist.xml",
        "/sets/beta/changelist-archive.xml",
        "/sets/beta/changelist-archive/000000000001-000000000002.xml",
        "/sets/beta/changelist-archive/000000000003-000000000004.xml",
        "/sets/beta/changes/latest.xml",
        "/sets/beta/changes/000000000001.xml",
        "/sets/beta/changes/000000000002.xml",
        "/sets/beta/changes/000000000003.xml",
        "/sets/beta/changes/000000000004.xml",
        "/sets/gamma/capabilitylist.xml",
        "/sets/gamma/notifications",
        "/sets/gamma/framework-notifications",
        "/sets/gamma/changelist.xml",
        "/sets/gamma/changelist-archive.xml",
        "/sets/gamma/changes/latest.xml",
        "/sets/gamma/changes/000000000001.xml",
        "/sets/gamma/changes/000000000002.xml",
    };
    size_t n = sizeof(wanted) / sizeof(wanted[0]);
    struct walk w;

    await_final(*state, "/sets/beta/changes/000000000001.xml");
    await_final(*state, "/sets/beta/changes/000000000002.xml");
    await_final(*state, "/sets/beta/changes/000000000003.xml");
    await_final(*state, "/sets/gamma/changes/000000000001.xml");
    walk(&w, *state);
    for (size_t i = 0; i < n; i++)
        if (place_of(&w, wanted[i]) == w.n)
            fail_msg("not reached: %s", wanted[i]);
    assert_int_equal(w.n, n);
}

/* Source Description and Capability Lists */

/* */
TEST(the_source_description_names_every_set_once)
{
    static const char *const sets[] = {"alpha", "beta", "gamma"};
    struct stage *s = *state;
    struct xpath x, list;

    get(s, DESCRIPTION, &x);
    assert_xpath_text(&x, "string(/s:urlset/rs:md/@capability)", "description");
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    assert_xpath_count(&x, "//s:lastmod", 0);
    for (size_t i = 0; i < 3; i++) {
        char url[256], path[128], expression[512];

        snprintf(path, sizeof(path), "/sets/%s/capabilitylist.xml", sets[i]);
        snprintf(url, sizeof(url), "%s%s", s->broker.url, path);
        snprintf(expression, sizeof(expression),
                 "/s:urlset/s:url[s:loc='%s'][rs:md/@capability="
                 "'capabilitylist']",
                 url);
        assert_xpath_count(&x, expression, 1);
        get(s, path, &list);
        assert_xpath_text(&list, "string(/s:urlset/rs:md/@capability)",
                          "capabilitylist");
        xpath_close(&list);
    }
    xpath_close(&x);
}

/* */
TEST(a_new_set_is_in_the_source_description_at_once)
{
    struct stage *s = *state;

    for (unsigned i = 0; i < 20; i++) {
        struct xpath x;
        char set[16], expression[128];

        snprintf(set, sizeof(set), "new-%u", i);
        snprintf(expression, sizeof(expression),
                 "/s:urlset/s:url[contains(s:loc, '/sets/%s/')]", set);
        get(s, DESCRIPTION, &x);
        assert_xpath_count(&x, expression, 0);
        xpath_close(&x);
        source_post(&s->http, set, 0, 1, 0);

        get(s, DESCRIPTION, &x);
        assert_xpath_count(&x, expression, 1);
        assert_xpath_count(&x, "/s:urlset/s:url", 4 + i);
        xpath_close(&x);
    }
}

/* what is there, and only that. */
TEST(a_capability_list_names_what_there_is)
{
    static const struct {
        const char *path;
        size_t n;
    } lists[] = {{"/sets/alpha/capabilitylist.xml", 3},
                 {"/sets/beta/capabilitylist.xml", 4},
                 {"/sets/gamma/capabilitylist.xml", 4}};
    struct stage *s = *state;
    char up[128];

    snprintf(up, sizeof(up), "%s" DESCRIPTION, s->broker.url);
    for (size_t i = 0; i < 3; i++) {
        struct xpath x, target;

        get(s, lists[i].path, &x);
        assert_xpath(&x, "/s:urlset/rs:md[@capability='capabilitylist']");
        assert_xpath_text(&x, "string(/s:urlset/rs:ln[@rel='up']/@href)", up);
        assert_xpath_count(&x, "/s:urlset/s:url", lists[i].n);
        assert_xpath_count(&x, "//s:lastmod", 0);
        assert_xpath_count(&x,
                           "/s:urlset/s:url/rs:md[@capability=../"
                           "following-sibling::s:url/rs:md/@capability]",
                           0);
        for (size_t k = 1; k <= lists[i].n; k++) {
            char loc[64], capability[96];

            snprintf(loc, sizeof(loc), "string(/s:urlset/s:url[%zu]/s:loc)", k);
            snprintf(capability, sizeof(capability),
                     "string(/s:urlset/s:url[%zu]/rs:md/@capability)", k);
            get(s, path_of(s, xpath_get(&x, loc)), &target);
            assert_xpath_text(&target, "string(/*/rs:md/@capability)",
                              xpath_get(&x, capability));
            xpath_close(&target);
        }
        xpath_close(&x);
    }
}

/* the fixed address is the list while there is one, the index
 * from the first rotation on. */
TEST(the_fixed_address_is_a_list_first_and_then_an_index)
{
    struct stage *s = *state;
    struct buf list;
    struct xpath x;

    buf_init(&list, 1 << 20);
    assert_int_equal(http_get(&s->http, "/sets/alpha/changelist.xml"), 200);
    buf_add_slice(&list, buf_slice(&s->http.body));
    assert_int_equal(http_get(&s->http, "/sets/alpha/changes/000000000001.xml"),
                     200);
    assert_true(slice_equal(buf_slice(&list), buf_slice(&s->http.body)));
    assert_int_equal(http_get(&s->http, "/sets/alpha/changelist-archive.xml"),
                     404);
    get(s, "/sets/alpha/changelist.xml", &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    assert_xpath_count(&x, "/s:urlset/rs:md[@until]", 0);
    xpath_close(&x);

    source_rotate(&s->http, "alpha");

    get(s, "/sets/alpha/changelist.xml", &x);
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", 2);
    xpath_close(&x);
    get(s, "/sets/alpha/changelist-archive.xml", &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 1);
    xpath_close(&x);
    buf_fini(&list);
}

/* R-029, I-07: an open list without entries is a list. */
TEST(an_empty_open_list_is_served)
{
    struct stage *s = *state;
    struct xpath x;

    get(s, "/sets/gamma/changes/000000000002.xml", &x);
    check_document(s, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 0);
    assert_xpath_count(&x, "/s:urlset/rs:md[@from][not(@until)]", 1);
    xpath_close(&x);
    assert_int_equal(http_get(&s->http, "/sets/gamma/changes/000000000003.xml"),
                     404);
    assert_int_equal(http_get(&s->http, "/sets/gamma/changes/2.xml"), 404);
}

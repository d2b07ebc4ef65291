/*
 * resources_test.c - PUT resources: a source tells all that it has, and what
 * differs is told as changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gzip.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/wholes.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* The way */

/* a plain Sitemap is enough; lastmod tells what was
 * updated. */
TEST(a_sitemap_that_differs_becomes_changes, wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct xpath x;

    wholes_put(h, XML,
               SITEMAP(URL_OF("a", "2026-01-01") URL("b?x=1&amp;y=2") URL("c")
                           URL("d") URL("e")));
    wholes_assert_told(h, 5, 0, 0, 0, 0);
    wholes_put(
        h, XML,
        SITEMAP(URL("f") URL_OF("a", "2026-01-02") URL("e") URL("d") URL("c")));
    wholes_assert_told(h, 1, 1, 1, 3, 0);
    assert_int_equal(http_get(h, "/sets/demo/changelist.xml"), 200);
    xpath_open(&x, buf_slice(&h->body));

    assert_xpath_count(&x, "//s:url", 8);
    assert_xpath_text(&x, "//s:url[6]/rs:md/@change", "created");
    assert_xpath_text(&x, "//s:url[6]/s:loc", "http://example.com/f");
    assert_xpath_text(&x, "//s:url[7]/rs:md/@change", "updated");
    assert_xpath_text(&x, "//s:url[7]/s:lastmod", "2026-01-02T00:00:00Z");
    assert_xpath_text(&x, "//s:url[8]/rs:md/@change", "deleted");
    assert_xpath_text(&x, "//s:url[8]/s:loc", "http://example.com/b?x=1&y=2");
    assert_xpath_count(&x, "//s:url[8]/s:lastmod", 0);
    xpath_close(&x);
    wholes_assert_nothing_left(s, 8);
}

TEST(the_answer_names_set_seqs_and_position, wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct jsonpath j;
    char end[40];

    wholes_put(h, XML, SITEMAP(URL("a") URL("b")));
    wholes_assert_told(h, 2, 0, 0, 0, 0);
    jsonpath_open(&j, buf_slice(&h->body));
    assert_string_equal(jsonpath_text(&j, "set"), "demo");
    assert_int_equal(jsonpath_number(&j, "first"), 1);
    assert_int_equal(jsonpath_number(&j, "last"), 2);
    snprintf(end, sizeof(end), "%s", jsonpath_text(&j, "position"));
    jsonpath_close(&j);
    assert_string_equal(strchr(end, '-'), "-2");

    wholes_put(h, XML, SITEMAP(URL("a") URL("b")));

    wholes_assert_told(h, 0, 0, 0, 2, 0);
    buf_add(&h->body, "", 1); /* terminated */
    assert_non_null(strstr(h->body.data, "\"first\":null,\"last\":null"));
    assert_non_null(strstr(h->body.data, end));
}

/* all that it told of a resource counts. */
TEST(a_resource_list_with_another_hash_length_or_link_is_an_update,
     wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;

    wholes_put(
        h, XML,
        RESOURCELIST(MD("a", "hash='md5:1584abdf8ebdc9802ac0c6a7402c03b6'") MD(
            "b", "length='3'") MD("c", "type='text/html'") MD("d", "")));
    wholes_assert_told(h, 4, 0, 0, 0, 0);

    wholes_put(
        h, XML,
        RESOURCELIST(
            MD("a", "hash='md5:1584abdf8ebdc9802ac0c6a7402c03b7'")
                MD("b", "length='4'") MD(
                    "c",
                    "type='text/html'") "<url><loc>http://example.com/d</loc>"
                                        "<rs:ln rel='describedby' "
                                        "href='http://example.com/d.txt'/></"
                                        "url>"));

    wholes_assert_told(h, 0, 3, 0, 1, 0);
}

TEST(ndjson_and_gzip_of_each_form_say_the_same, wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;

    static const struct {
        const char *type, *body;
    } forms[] = {
        {XML, SITEMAP(URL("a") URL_OF("b", "2026-01-01"))},
        {XML, RESOURCELIST(URL("a") URL_OF("b", "2026-01-01"))},
        {NDJSON, "{\"loc\":\"http://example.com/a\"}\n"
                 "{\"loc\":\"http://example.com/b\","
                 "\"lastmod\":\"2026-01-01T00:00:00Z\"}\n"},
    };

    uint64_t created = 2;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct buf zipped;

        wholes_put(h, forms[i].type, forms[i].body);
        wholes_assert_told(h, created, 0, 0, 2 - created, 0);
        created = 0;
        buf_init(&zipped, 65536);
        gzip_add(&zipped, slice_of(forms[i].body));
        wholes_put_as(h, WHOLES_PATH, forms[i].type, "gzip",
                      buf_slice(&zipped));
        buf_fini(&zipped);
        wholes_assert_told(h, 0, 0, 0, 2, 0);
    }
}

/* What changes have told is the state, too. */
TEST(posted_changes_and_a_whole_state_go_together, wholes_setup,
     wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;

    assert_int_equal(http_post(h, "/sets/demo/changes", NDJSON,
                               SLICE("{\"loc\":\"http://example.com/a\","
                                     "\"change\":\"created\",\"length\":3}\n"
                                     "{\"loc\":\"http://example.com/b\","
                                     "\"change\":\"created\"}\n"
                                     "{\"loc\":\"http://example.com/c\","
                                     "\"change\":\"created\"}\n"
                                     "{\"loc\":\"http://example.com/c\","
                                     "\"change\":\"deleted\"}\n")),
                     200);

    wholes_put(h, NDJSON,
               "{\"loc\":\"http://example.com/a\",\"length\":3}\n"
               "{\"loc\":\"http://example.com/b\"}\n");

    wholes_assert_told(h, 0, 0, 0, 2, 0);
}

/* Refusals */

/* */
TEST(what_is_not_a_whole_good_body_leaves_nothing, wholes_setup,
     wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct buf zipped;

    wholes_put(h, XML, "<urlset xmlns='" NS_SITEMAP "'>" URL("a"));
    assert_refused(h, 400, "");
    wholes_put(h, XML, SITEMAP(URL("a") URL("b") URL("a")));
    assert_entry_refused(
        h, 422, "loc: told already in entry 1: \"http://example.com/a\"", 3);
    wholes_put(h, XML, SITEMAP(URL("a") "<url><loc>b</loc></url>"));
    assert_entry_refused(h, 422, "loc", 2);
    wholes_put(h, XML, RESOURCELIST(MD("a", "change='created'")));
    assert_entry_refused(h, 422, "change: of a resource is told what it is", 1);
    wholes_put(h, XML,
               RESOURCELIST(MD("a", "datetime='2026-01-01T00:00:00Z'")));
    assert_entry_refused(h, 422, "datetime", 1);
    wholes_put(h, XML,
               "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
               "<rs:md capability='changelist'/></urlset>");
    assert_refused(h, 422, "capability: not resourcelist");
    wholes_put(h, XML,
               "<sitemapindex xmlns='" NS_SITEMAP "'>"
               "<sitemap><loc>http://example.com/1.xml</loc></sitemap>"
               "</sitemapindex>");
    assert_refused(h, 422, "the root is not urlset");
    wholes_put(h, NDJSON, "{\"loc\":\"http://example.com/a\"}\n{\"loc\":");
    assert_refused(h, 400, "");
    buf_init(&zipped, 65536);
    gzip_add(&zipped, SLICE(SITEMAP(URL("a"))));
    wholes_put_as(h, WHOLES_PATH, XML, "gzip",
                  (struct slice){zipped.data, zipped.size - 4});
    buf_fini(&zipped);
    assert_refused(h, 400, "gzip");

    wholes_assert_nothing_left(s, 0);
}

TEST(what_nobody_reads_is_refused_before_its_body, wholes_setup,
     wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;

    wholes_put(h, "application/json", "[]");
    assert_refused(h, 415, "application/xml, application/x-ndjson");
    wholes_put_as(h, WHOLES_PATH, XML, "br", SLICE("x"));
    assert_refused(h, 415, "gzip");
    wholes_put_as(h, "/sets/Demo/resources", XML, NULL, SLICE("x"));
    assert_refused(h, 404, "no set can be called");
    wholes_put_as(h, WHOLES_PATH "?max-delete=101", XML, NULL, SLICE("x"));
    assert_refused(h, 400, "max-delete");
    wholes_put_as(h, WHOLES_PATH "?max-delete=all", XML, NULL, SLICE("x"));
    assert_refused(h, 400, "max-delete");

    wholes_assert_nothing_left(s, 0);
}

/* Of its own, not --max-body. */
TEST(the_limit_counts_what_comes_out_of_gzip)
{
    struct broker b;
    struct http h;
    struct buf body, zipped;

    broker_open(&b, "--max-resources-body", "64K", "--max-body", "1K", NULL);
    http_open(&h, b.url);
    buf_init(&body, 1 << 20);
    buf_init(&zipped, 1 << 20);
    for (int i = 0; body.size < 60000; i++)
        buf_add_format(&body, "{\"loc\":\"http://example.com/%d\"}\n", i);

    assert_int_equal(
        wholes_put_as(&h, WHOLES_PATH, NDJSON, NULL, buf_slice(&body)), 200);
    for (int i = 0; body.size < 70000; i++)
        buf_add_format(&body, "{\"loc\":\"http://example.com/x%d\"}\n", i);
    wholes_put_as(&h, WHOLES_PATH, NDJSON, NULL, buf_slice(&body));
    assert_refused(&h, 413, "65536");
    gzip_add(&zipped, buf_slice(&body));
    assert_true(zipped.size < 65536);
    wholes_put_as(&h, WHOLES_PATH, NDJSON, "gzip", buf_slice(&zipped));
    assert_refused(&h, 413, "65536");

    assert_int_equal(wholes_count(&b), 0);
    buf_fini(&body);
    buf_fini(&zipped);
    http_close(&h);
    broker_close(&b);
}

/* Mass deletion */

TEST(more_than_a_fifth_goes_only_if_it_is_meant, wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct jsonpath j;

    wholes_put(h, XML, SITEMAP(URL("a") URL("b") URL("c") URL("d") URL("e")));
    wholes_put(h, XML, SITEMAP(URL("a") URL("b") URL("x")));
    assert_refused(h, 409, "3 of 5 resources would be deleted");
    assert_null(http_header(h, "Retry-After"));
    jsonpath_open(&j, buf_slice(&h->body));
    assert_int_equal(jsonpath_number(&j, "created"), 1);
    assert_int_equal(jsonpath_number(&j, "deleted"), 3);
    assert_int_equal(jsonpath_number(&j, "unchanged"), 2);
    assert_int_equal(jsonpath_number(&j, "resources"), 5);
    jsonpath_close(&j);
    wholes_assert_nothing_left(s, 5);

    wholes_put_as(h, WHOLES_PATH "?max-delete=59", XML, NULL,
                  SLICE(SITEMAP(URL("a") URL("b") URL("x"))));
    assert_refused(h, 409, "more than 59 %");
    wholes_put_as(h, WHOLES_PATH "?max-delete=60", XML, NULL,
                  SLICE(SITEMAP(URL("a") URL("b") URL("x"))));
    wholes_assert_told(h, 1, 0, 3, 2, 0);

    wholes_put(h, XML, SITEMAP(""));
    assert_refused(h, 409, "3 of 3");
    wholes_put_as(h, WHOLES_PATH "?max-delete=100", XML, NULL,
                  SLICE(SITEMAP("")));
    wholes_assert_told(h, 0, 0, 3, 0, 0);
    wholes_assert_nothing_left(s, 12);
}

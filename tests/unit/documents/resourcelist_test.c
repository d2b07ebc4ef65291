#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/documents/documents.h"
#include "tests/support/bodies.h"
#include "tests/support/build_orders.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define N 2300

/* A list of so many resources, in parts of at most `entries`. */
static void
open_with(struct build_orders *w, void **state, uint64_t entries)
{
    build_orders_open(w, state);
    w->sets.config.resource_list_entries = entries;
    sets_post(&w->sets, "demo", 1, N);
    build_orders_work(w);
}

/* A list of the resources that a post creates. */
static void
open_with_json(struct build_orders *w, void **state, struct slice json)
{
    struct sets_outcome o;

    build_orders_open(w, state);
    o = sets_post_body(&w->sets, "demo", "application/json", json, 0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    build_orders_work(w);
}

/* Open as the path would. */

static enum status
open_path(const struct document_wish *wish, struct document *document,
          struct problem *why, const char *path)
{
    struct document_found found;

    assert_int_equal(documents_find(slice_of(path), &found), STATUS_OK);
    return documents_open(&found, wish, document, why);
}

static enum status
open_current(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    return open_path(wish, document, why, "/sets/demo/resourcelist.xml");
}

static enum status
open_part(const struct document_wish *wish, struct document *document,
          struct problem *why)
{
    char path[100];

    snprintf(path, sizeof(path), "/sets/demo/resourcelist/%012u/%012u.xml",
             (unsigned)wish->number, (unsigned)wish->last);
    return open_path(wish, document, why, path);
}

/* The bytes of a page, with a NUL. */
static void
read_page(struct build_orders *w, uint64_t part, uint64_t page,
          struct buf *text)
{
    struct document document;

    w->form = DOCUMENT_HTML;
    w->page = page;
    assert_int_equal(part ? build_orders_try(w, open_part, 1, part, &document)
                          : build_orders_try(w, open_current, 0, 0, &document),
                     STATUS_OK);
    assert_null(document.gzip);
    buf_init(text, SIZE_MAX);
    bodies_read(document.body, text);
    buf_add(text, "", 1);
}

/* The resources that a page names, each once: how many. */
static unsigned
take_resources(const char *page, bool seen[N + 1])
{
    static const char before[] = "<a href=\"http://example.com/r/";
    unsigned n = 0;

    for (; (page = strstr(page, before)); n++) {
        unsigned long number = strtoul(page += strlen(before), NULL, 10);

        assert_in_range(number, 1, N);
        assert_false(seen[number]);
        seen[number] = true;
    }
    return n;
}

/* The link leads to `base` and `end`; `end` is NULL: there is no such link. */
static void
assert_link(const char *page, const char *rel, const char *base,
            const char *end)
{
    char text[200];

    snprintf(text, sizeof(text), "<link rel=\"%s\" href=\"%s%s\">", rel, base,
             end ? end : "");
    if (!strstr(page, end ? text : rel) == (end != NULL))
        fail_msg("%s %s", end ? "there is no" : "there is", text);
}

/* The page has `n` resources that no page before had, and these links. */
static void
assert_page(struct build_orders *w, uint64_t part, uint64_t page,
            bool seen[N + 1], unsigned n, const char *base, const char *prev,
            const char *next)
{
    struct buf text;

    read_page(w, part, page, &text);
    assert_int_equal(take_resources(text.data, seen), n);
    assert_link(text.data, "prev", base, prev);
    assert_link(text.data, "next", base, next);
    buf_fini(&text);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* 1,000 a page, one leading to the next and back. */
TEST(pages_have_all_resources_of_a_list)
{
    static const struct {
        unsigned n;
        const char *prev, *next;
    } pages[] = {
        {1000, NULL, "?page=2"},
        {1000, "", "?page=3"},
        {300, "?page=2", NULL},
    };

    static const char list[] = RENEWALS_DEMO "resourcelist/000000000001.xml";
    bool seen[N + 1] = {false};
    struct document document;
    struct build_orders w;

    open_with(&w, state, 50000);
    for (size_t i = 0; i < 3; i++)
        assert_page(&w, 0, i + 1, seen, pages[i].n, list, pages[i].prev,
                    pages[i].next);
    w.page = 4;
    assert_int_equal(build_orders_try(&w, open_current, 0, 0, &document),
                     STATUS_NOT_FOUND);
    build_orders_end(&w);
}

static struct digest
tag_of_page(struct build_orders *w)
{
    struct document document;

    w->form = DOCUMENT_HTML;
    w->page = 1;
    assert_int_equal(build_orders_try(w, open_current, 0, 0, &document),
                     STATUS_OK);
    document_close(&document);
    return document.tag;
}

/* a browser that has it from a broker of another public URL gets
 * it anew, for the sake of its links. */
TEST(a_page_is_another_one_under_another_public_url)
{
    struct digest before, after;
    struct build_orders w;

    open_with(&w, state, 50000);
    before = tag_of_page(&w);
    after = tag_of_page(&w);
    assert_memory_equal(&before, &after, sizeof(before));
    snprintf(w.sets.public_url, sizeof(w.sets.public_url),
             "http://example.com");
    after = tag_of_page(&w);
    assert_memory_not_equal(&before, &after, sizeof(before));
    build_orders_end(&w);
}

/* From part to part, too: the index is a page of the parts. */
TEST(pages_lead_through_all_parts)
{
    static const struct {
        uint64_t part, page;
        unsigned n;
        const char *prev, *next;
    } pages[] = {
        {1, 1, 1000, NULL, "?page=2"},
        {1, 2, 500, "?", "000000000002.xml"},
        {2, 1, 800, "000000000001.xml", NULL},
    };

    bool seen[N + 1] = {false};
    struct build_orders w;
    struct buf text;

    open_with(&w, state, 1500);
    read_page(&w, 0, 1, &text);
    assert_non_null(strstr(text.data,
                           "<a href=\"" RENEWALS_DEMO
                           "resourcelist/000000000001/000000000002.xml\">"));
    assert_link(text.data, "next", "", NULL);
    buf_fini(&text);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        assert_page(&w, pages[i].part, pages[i].page, seen, pages[i].n, "",
                    pages[i].prev, pages[i].next);
    build_orders_end(&w);
}

/* The names of a source's resources are text, and lead nowhere but to the web.
 */
TEST(a_page_runs_nothing_that_a_source_says)
{
    static const char json[] =
        "[{\"loc\":\"http://example.com/?a=%22%3E&b=1&c='\","
        "\"change\":\"created\"},"
        "{\"loc\":\"javascript:alert(1)\",\"change\":\"created\"}]";
    struct build_orders w;
    struct buf text;

    open_with_json(&w, state, slice_of(json));
    read_page(&w, 0, 1, &text);
    assert_non_null(
        strstr(text.data,
               "<a href=\"http://example.com/?a=%22%3E&amp;b=1&amp;c='\">"));
    assert_non_null(strstr(text.data, "<td class=\"m\">javascript:alert(1)<"));
    assert_null(strstr(text.data, "href=\"javascript:"));
    buf_fini(&text);
    build_orders_end(&w);
}

/* nothing but what a Sitemap has, in the order in which it has it. */
TEST(a_plain_list_is_a_sitemap_and_nothing_else)
{
    static const char json[] =
        "[{\"loc\":\"http://example.com/a?b&c\",\"change\":\"created\","
        "\"lastmod\":\"2026-04-01T18:09:00Z\",\"changefreq\":\"daily\","
        "\"priority\":0.5,\"length\":3,\"tags\":[\"t\"],\"links\":[{\"rel\":"
        "\"duplicate\",\"href\":\"http://example.org/1\"}]},"
        "{\"loc\":\"http://example.com/b\",\"change\":\"created\"}]";
    struct build_orders w;
    struct buf text;

    open_with_json(&w, state, slice_of(json));
    w.form = DOCUMENT_PLAIN;
    build_orders_text(&w, resourcelist_current_open, 0, 0, &text);
    buf_add(&text, "", 1);
    assert_string_equal(
        text.data,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"
        "<url><loc>http://example.com/a?b&amp;c</loc>"
        "<lastmod>2026-04-01T18:09:00Z</lastmod>"
        "<changefreq>daily</changefreq><priority>0.5</priority></url>\n"
        "<url><loc>http://example.com/b</loc></url>\n"
        "</urlset>\n");
    buf_fini(&text);
    build_orders_end(&w);
}

/* Its parts are plain, too, and together the set. */
TEST(a_plain_index_leads_to_plain_lists)
{
    struct xpath index, part;
    struct build_orders w;
    size_t n = 0;

    open_with(&w, state, 1000);
    w.form = DOCUMENT_PLAIN;
    build_orders_read(&w, resourcelist_current_open, 0, 0, &index);
    assert_xpath_count(&index, "/s:sitemapindex/s:sitemap", 3);
    assert_xpath_count(&index, "//rs:*", 0);
    for (unsigned i = 1; i <= 3; i++) {
        char question[60], loc[120];

        snprintf(question, sizeof(question), "/*/s:sitemap[%u]/s:loc", i);
        snprintf(loc, sizeof(loc),
                 RENEWALS_DEMO "resourcelist/000000000001/%012u.xml?plain", i);
        assert_xpath_text(&index, question, loc);
        build_orders_read(&w, resourcelist_generation_open, 1, i, &part);
        assert_xpath_count(&part, "//rs:*", 0);
        assert_xpath_count(&part, "//@td:*", 0);
        n += xpath_count(&part, "/s:urlset/s:url");
        xpath_close(&part);
    }
    assert_int_equal(n, N);
    xpath_close(&index);
    build_orders_end(&w);
}

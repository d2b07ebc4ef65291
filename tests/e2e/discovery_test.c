/*
 * discovery_test.c - from wherever somebody begins, they find all of it: the
 * landing page, robots.txt, the well-known address, Link headers (R-040 to
 *
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/HTMLparser.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/lists.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define DESCRIPTION "/.well-known/resourcesync"
#define TEXT_MAX    300

/* an address of ours begins with the public URL. */
static const char *
path_of(struct lists *l, const char *url)
{
    size_t size = strlen(l->broker.url);

    if (strncmp(url, l->broker.url, size) != 0 || url[size] != '/')
        fail_msg("not an address of ours: %s", url);
    return url + size;
}

static void
get(struct lists *l, const char *path, struct xpath *x)
{
    if (http_get(&l->http, path) != 200)
        fail_msg("%s: %ld", path, l->http.status);
    assert_valid(buf_slice(&l->http.body));
    xpath_open(x, buf_slice(&l->http.body));
}

/* what the Capability List at `url` names is there
 * and is what it says; and it leads up. */
static void
check_capabilities(struct lists *l, const char *url)
{
    struct xpath x, up, target;
    char path[TEXT_MAX];
    size_t n;

    snprintf(path, sizeof(path), "%s", path_of(l, url));
    get(l, path, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='capabilitylist']", 1);
    get(l, path_of(l, xpath_get(&x, "string(/*/rs:ln[@rel='up']/@href)")), &up);
    assert_xpath_count(&up, "/s:urlset/rs:md[@capability='description']", 1);
    xpath_close(&up);
    n = xpath_count(&x, "/s:urlset/s:url");
    assert_in_range(n, 3, 4); /* with the topics of its channels */
    for (size_t i = 1; i <= n; i++) {
        char loc[80], capability[80];

        snprintf(loc, sizeof(loc), "string(/*/s:url[%zu]/s:loc)", i);
        snprintf(capability, sizeof(capability),
                 "string(/*/s:url[%zu]/rs:md/@capability)", i);
        get(l, path_of(l, xpath_get(&x, loc)), &target);
        assert_xpath_text(&target, "string(/*/rs:md/@capability)",
                          xpath_get(&x, capability));
        xpath_close(&target);
    }
    xpath_close(&x);
}

static void
open_sets(struct lists *l)
{
    LISTS_OPEN(l, "--rotate-entries", "10");
    source_post(&l->http, LISTS_SET, 1, 25, 0);
    source_post(&l->http, "other", 1, 3, 0);
}

FIXTURE(lists_setup, lists_teardown);

/* a page for people names the Capability List of each set, in its
 * head for programs; and says how to subscribe. */
TEST(the_landing_page_leads_to_every_set)
{
    struct lists *l = *state;
    xmlXPathContext *context;
    xmlXPathObject *links, *scripts;
    htmlDocPtr page;

    open_sets(l);
    assert_int_equal(http_get(&l->http, "/"), 200);
    assert_string_equal(http_header(&l->http, "Content-Type"),
                        "text/html; charset=utf-8");
    assert_string_equal(http_header(&l->http, "Content-Security-Policy"),
                        "default-src 'none'; style-src 'unsafe-inline'");
    assert_non_null(memmem(l->http.body.data, l->http.body.size,
                           "/sets/NAME/notifications \\\n", 26));
    page = htmlReadMemory(l->http.body.data, (int)l->http.body.size, NULL,
                          "UTF-8", HTML_PARSE_NONET | HTML_PARSE_NOWARNING);
    assert_non_null(page);
    context = xmlXPathNewContext(page);
    links = xmlXPathEvalExpression(
        BAD_CAST "/html/head/link[@rel='resourcesync']/@href", context);
    scripts = xmlXPathEvalExpression(BAD_CAST "//script", context);
    assert_int_equal(links->nodesetval->nodeNr, 2);
    assert_true(xmlXPathNodeSetIsEmpty(scripts->nodesetval));
    for (int i = 0; i < 2; i++) {
        xmlChar *href = xmlNodeGetContent(links->nodesetval->nodeTab[i]);

        check_capabilities(l, (const char *)href);
        xmlFree(href);
    }
    xmlXPathFreeObject(links);
    xmlXPathFreeObject(scripts);
    xmlXPathFreeContext(context);
    xmlFreeDoc(page);
}

/* Whatever a set is called, it is text. */
TEST(the_landing_page_shows_titles_as_text)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct lists *l = *state;

    open_sets(l);
    assert_int_equal(
        http_request(&l->http, "PUT", "/sets/other", json,
                     SLICE("{\"title\":\"<script>A & B</script>\"}")),
        200);
    assert_int_equal(http_get(&l->http, "/"), 200);
    assert_non_null(memmem(l->http.body.data, l->http.body.size,
                           "&lt;script&gt;A &amp; B&lt;/script&gt;<br>", 41));
    assert_null(memmem(l->http.body.data, l->http.body.size, "<script", 7));
}

/* Follows the URLs of a Link header whose relation is "resourcesync"; returns
 * how many. */
static size_t
check_links(struct lists *l, const char *header)
{
    char copy[1024];
    size_t n = 0;

    assert_non_null(header);
    snprintf(copy, sizeof(copy), "%s", header);
    for (char *at = copy; (at = strchr(at, '<'));) {
        char *end = strchr(at, '>');

        assert_non_null(end);
        *end = '\0';
        assert_memory_equal(end + 1, "; rel=\"resourcesync\"", 20);
        check_capabilities(l, at + 1);
        at = end + 1;
        n++;
    }
    return n;
}

/* whoever has any document, by GET or HEAD, has the Capability List that
 * covers it. */
TEST(every_document_names_the_capability_list_that_covers_it)
{
    static const char *const paths[] = {
        "/sets/" LISTS_SET "/capabilitylist.xml",
        "/sets/" LISTS_SET "/changelist.xml",
        "/sets/" LISTS_SET "/changelist-archive.xml",
        "/sets/" LISTS_SET "/changes/latest.xml",
        "/sets/" LISTS_SET "/changes/000000000001.xml",
    };
    struct lists *l = *state;

    open_sets(l);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char wanted[TEXT_MAX];

        snprintf(wanted, sizeof(wanted),
                 "<%s/sets/" LISTS_SET
                 "/capabilitylist.xml>; rel=\"resourcesync\"",
                 l->broker.url);
        assert_int_equal(http_ask(&l->http, "HEAD", paths[i], NULL), 200);
        assert_string_equal(http_header(&l->http, "Link"), wanted);
        assert_int_equal(check_links(l, http_header(&l->http, "Link")), 1);
    }
    assert_int_equal(http_get(&l->http, "/"), 200);
    assert_int_equal(check_links(l, http_header(&l->http, "Link")), 2);
}

/* of each set a Sitemap, from which everything else is found. */
TEST(robots_txt_names_a_sitemap_of_each_set)
{
    struct lists *l = *state;
    char text[1000], *at = text;
    size_t n = 0;

    open_sets(l);
    assert_int_equal(http_get(&l->http, "/robots.txt"), 200);
    assert_string_equal(http_header(&l->http, "Content-Type"),
                        "text/plain; charset=utf-8");
    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(buf_slice(&l->http.body)));
    assert_memory_equal(text, "User-agent: *\nDisallow:\n", 24);
    while ((at = strstr(at, "\nSitemap: "))) {
        size_t size = strcspn(at + 10, "\n");
        char url[TEXT_MAX];
        struct xpath x;

        snprintf(url, sizeof(url), "%.*s", (int)size, at + 10);
        get(l, path_of(l, url), &x);
        assert_xpath(&x, "/s:urlset or /s:sitemapindex");
        snprintf(url, sizeof(url), "%s",
                 xpath_get(&x, "string(/*/rs:ln[@rel='up']/@href)"));
        xpath_close(&x);
        check_capabilities(l, url);
        at += 10;
        n++;
    }
    assert_int_equal(n, 2);
}

/* the Source says what it is, and where people read of
 * it. */
TEST(the_source_description_leads_to_every_set_and_to_people)
{
    struct lists *l = *state;
    struct xpath x;

    open_sets(l);
    get(l, DESCRIPTION, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='description']", 1);
    assert_xpath_count(&x, "/s:urlset/s:url", 2);
    assert_xpath_count(&x, "//s:lastmod", 0);
    check_capabilities(l, xpath_get(&x, "string(/*/s:url[1]/s:loc)"));
    check_capabilities(l, xpath_get(&x, "string(/*/s:url[2]/s:loc)"));
    assert_int_equal(
        http_get(&l->http,
                 path_of(l, xpath_get(&x, "string(/*/rs:ln"
                                          "[@rel='describedby']/@href)"))),
        200);
    assert_string_equal(http_header(&l->http, "Content-Type"),
                        "text/html; charset=utf-8");
    xpath_close(&x);
}

/* The sets of the source, each found in one part, whose Capability List leads
 * back to it; the index leads to all. Returns how many there are. */
static size_t
walk_parts(struct lists *l)
{
    struct xpath index, part, list;
    size_t n = 0, n_parts;

    get(l, DESCRIPTION, &index);
    assert_xpath_count(&index,
                       "/s:sitemapindex/rs:md[@capability='description']", 1);
    n_parts = xpath_count(&index, "/s:sitemapindex/s:sitemap");
    for (size_t i = 1; i <= n_parts; i++) {
        char question[80], loc[TEXT_MAX];

        snprintf(question, sizeof(question), "string(/*/s:sitemap[%zu]/s:loc)",
                 i);
        snprintf(loc, sizeof(loc), "%s", xpath_get(&index, question));
        get(l, path_of(l, loc), &part);
        assert_xpath_count(&part, "/s:urlset/rs:md[@capability='description']",
                           1);
        assert_string_equal(
            path_of(l,
                    xpath_get(&part, "string(/*/rs:ln[@rel='index']/@href)")),
            DESCRIPTION);
        assert_in_range(xpath_count(&part, "/*/s:url"), 1, 2);
        for (size_t k = 1; k <= xpath_count(&part, "/*/s:url"); k++, n++) {
            snprintf(question, sizeof(question), "string(/*/s:url[%zu]/s:loc)",
                     k);
            get(l, path_of(l, xpath_get(&part, question)), &list);
            assert_xpath_text(&list, "string(/*/rs:ln[@rel='up']/@href)", loc);
            xpath_close(&list);
            check_capabilities(l, xpath_get(&part, question));
        }
        xpath_close(&part);
    }
    xpath_close(&index);
    return n;
}

/* where one document is not enough for all sets. */
TEST(more_sets_than_a_description_has_room_for_are_found_by_its_index)
{
    struct lists *l = *state;
    struct xpath x;

    LISTS_OPEN(l, "--description-sets", "2");
    for (unsigned i = 0; i < 5; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        source_post(&l->http, name, 1, 3, 0);
        if (i >= 2)
            assert_int_equal(walk_parts(l), i + 1);
    }
    assert_int_equal(http_ask(&l->http, "DELETE", "/sets/b", NULL), 204);
    assert_int_equal(walk_parts(l), 4);
    source_post(&l->http, "b", 1, 3, 0);
    assert_int_equal(walk_parts(l), 5);
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    assert_int_equal(walk_parts(l), 5);

    /* robots.txt names no Source Description, but each set. */
    assert_int_equal(http_get(&l->http, "/robots.txt"), 200);
    assert_null(memmem(l->http.body.data, l->http.body.size, "description",
                       strlen("description")));
    assert_int_equal(http_get(&l->http, "/sets/e"), 200);
    assert_non_null(memmem(l->http.body.data, l->http.body.size,
                           "/descriptions/", strlen("/descriptions/")));
    for (unsigned i = 0; i < 3; i++) {
        const char path[] = {'/', 's', 'e', 't', 's', '/', (char)('a' + i), 0};

        assert_int_equal(http_ask(&l->http, "DELETE", path, NULL), 204);
    }
    get(l, DESCRIPTION, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 2);
    xpath_close(&x);
}

/* push and pull are found together, by relations that are
 * URIs of ours. */
TEST(the_capability_list_names_every_channel)
{
    struct lists *l = *state;
    struct xpath x;

    open_sets(l);
    get(l, "/sets/" LISTS_SET "/capabilitylist.xml", &x);
    assert_int_equal(
        http_get(&l->http,
                 path_of(l, xpath_get(&x, "string(/*/rs:ln[@rel='urn:tidings:"
                                          "1:memory']/@href)"))),
        200);
    assert_string_equal(
        xpath_get(&x, "string(/*/rs:ln[@rel='urn:tidings:1:memory']/@type)"),
        http_header(&l->http, "Content-Type"));
    assert_non_null(
        memmem(l->http.body.data, l->http.body.size, "\"last\":25", 9));
    /* It is there, and asks for a WebSocket. */
    assert_int_not_equal(
        http_get(&l->http,
                 path_of(l, xpath_get(&x, "string(/*/rs:ln[@rel='urn:tidings:"
                                          "1:stream']/@href)"))),
        404);
    assert_xpath_count(&x,
                       "/*/rs:ln[not(@rel='up' or @rel='describedby' or "
                       "starts-with(@rel, 'urn:tidings:1:'))]",
                       0);
    xpath_close(&x);
}

/* the lists can be walked both ways, from any of them, to the same
 * sequence, and `last` is the newest wherever it stands. */
TEST(lists_are_walkable_both_ways)
{
    static const char *const starts[] = {
        "/sets/" LISTS_SET "/changelist.xml",
        "/sets/" LISTS_SET "/changelist-archive.xml",
        "/sets/" LISTS_SET "/changes/000000000001.xml",
        "/sets/" LISTS_SET "/changes/000000000002.xml",
        "/sets/" LISTS_SET "/changes/000000000003.xml",
    };
    struct lists *l = *state;
    struct xpath x;

    open_sets(l);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        char path[TEXT_MAX];
        unsigned seq = 25;

        get(l, starts[i], &x);
        snprintf(path, sizeof(path), "%s",
                 path_of(l, xpath_get(&x, "string(/*/rs:ln"
                                          "[@rel='last']/@href)")));
        xpath_close(&x);
        while (path[0]) { /* backward */
            const char *prev;
            size_t n;

            get(l, path, &x);
            n = xpath_count(&x, "/s:urlset/s:url");
            for (size_t k = n; k > 0; k--) {
                char question[80];

                snprintf(question, sizeof(question),
                         "string(/*/s:url[%zu]/rs:md/@td:seq)", k);
                assert_int_equal(strtoul(xpath_get(&x, question), NULL, 10),
                                 seq--);
            }
            prev = xpath_get(&x, "string(/*/rs:ln[@rel='prev']/@href)");
            snprintf(path, sizeof(path), "%s", *prev ? path_of(l, prev) : "");
            xpath_close(&x);
        }
        assert_int_equal(seq, 0);
    }
    walk_all(&l->walk); /* forward, and the archive with it */
}

/* it is the open list, with the open list's bytes, and moves on. */
TEST(the_latest_list_is_the_open_one)
{
    struct lists *l = *state;

    open_sets(l);
    for (unsigned number = 3; number <= 5; number++) {
        struct buf list = lists_copy(l, number);

        assert_int_equal(
            http_get(&l->http, "/sets/" LISTS_SET "/changes/latest.xml"), 200);
        assert_true(slice_equal(buf_slice(&l->http.body), buf_slice(&list)));
        assert_string_equal(http_header(&l->http, "Cache-Control"), "no-cache");
        buf_fini(&list);
        source_post(&l->http, LISTS_SET, 10 * number, 1, 0);
        source_rotate(&l->http, LISTS_SET);
    }
}

/* past the limit the archive has parts under
 * an index; every closed list is in one of them at every moment. */
TEST(a_long_archive_has_parts_and_every_list_is_in_one)
{
    struct lists *l = *state;
    struct xpath x;

    LISTS_OPEN(l, "--rotate-entries", "2", "--index-lists", "3");
    for (unsigned i = 1; i <= 12; i++) {
        source_post(&l->http, LISTS_SET, 2 * i, 2, 0);
        get(l, "/sets/" LISTS_SET "/changelist-archive.xml", &x);
        assert_xpath_count(&x, "/s:urlset", i <= 3);
        assert_xpath_count(&x, "/s:sitemapindex/s:sitemap",
                           i <= 3 ? 0 : (i + 2) / 3);
        xpath_close(&x);
        walk_all(&l->walk); /* through the parts: no hole, none twice */
        assert_int_equal(l->walk.n_lists, i + 1);
    }
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    walk_all(&l->walk);
}

/* one public URL in all that is made from now on; a broker that has
 * another one than last time says so, once. */
TEST(a_new_public_url_is_told_once)
{
    struct lists *l = *state;
    const char *grep[] = {"/bin/grep", "-c",
                          "http://old.example:81 and is http://new.example:82",
                          l->broker.log, NULL};
    struct command *c = calloc(1, sizeof(*c));
    struct xpath x;

    assert_non_null(c);
    LISTS_OPEN(l, "--rotate-entries", "5", "--insecure-open", "--public-url",
               "http://old.example:81");
    walk_allow(&l->walk, "http://old.example:81");
    walk_allow(&l->walk, "http://new.example:82");
    source_post(&l->http, LISTS_SET, 1, 12, 0);
    for (size_t i = 0; l->broker.arguments[i]; i++)
        if (!strcmp(l->broker.arguments[i], "http://old.example:81"))
            l->broker.arguments[i] = "http://new.example:82";
    for (int i = 0; i < 3; i++) {
        broker_stop(&l->broker);
        broker_restart(&l->broker);
    }
    command_start(c, grep);
    command_give(c, "");
    assert_int_equal(command_end(c), 0);
    assert_string_equal(c->out_text, "1\n");

    /* Index and archive lead to the closed ones where they are now;
     * what these say of themselves stays. */
    get(l, "/sets/" LISTS_SET "/changelist-archive.xml", &x);
    assert_xpath_count(
        &x, "/*/s:url/s:loc[starts-with(., 'http://new.example:82/')]", 2);
    xpath_close(&x);
    get(l, lists_path(l, 1), &x);
    assert_xpath_count(&x,
                       "/*/rs:ln[starts-with(@href, 'http://old.example:81/')]",
                       xpath_count(&x, "/*/rs:ln"));
    xpath_close(&x);
    walk_all(&l->walk);
    free(c);
}

/* Many sets: the page stays small, the robots.txt has them all. */
TEST(a_page_of_many_sets_is_bounded)
{
    struct lists *l = *state;
    size_t n = 0;

    LISTS_OPEN(l, NULL);
    for (unsigned i = 0; i < 120; i++) {
        char name[32];

        snprintf(name, sizeof(name), "set-%03u", i);
        source_post(&l->http, name, 1, 1, 0);
    }
    assert_int_equal(http_get(&l->http, "/"), 200);
    assert_non_null(
        memmem(l->http.body.data, l->http.body.size, "And 20 more.", 12));
    assert_null(memmem(l->http.body.data, l->http.body.size, "set-100", 7));
    assert_non_null(http_header(&l->http, "Link"));
    assert_int_equal(http_get(&l->http, "/robots.txt"), 200);
    for (const char *at = l->http.body.data, *end = at + l->http.body.size;
         (at = memmem(at, (size_t)(end - at), "Sitemap: ", 9)); at++)
        n++;
    assert_int_equal(n, 120);
}

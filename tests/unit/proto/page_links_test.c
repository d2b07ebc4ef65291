#include "proto/input/page_links.h"

#include <stdio.h>

#include "proto/buf.h"
#include "tests/test.h"

#define URL "https://a.example/feeds/one?x=1"

#define ATOM "xmlns='http://www.w3.org/2005/Atom'"

static void
on_link(const struct pagelink *link, void *user)
{
    buf_add_format(user, "%.*s %.*s\n", SLICE_ARG(link->rel),
                   SLICE_ARG(link->href));
}

/* "rel href", a line for each link. */
static void
assert_links(const char *type, const char *document, const char *expected)
{
    struct problem why = {""};
    struct buf b;

    buf_init(&b, 1u << 16);
    if (pagelinks_read(slice_of(document), slice_of(type), SLICE(URL), on_link,
                       &b, &why))
        fail_msg("%s: %s", document, why.text);
    if (!slice_is(buf_slice(&b), expected))
        fail_msg("%s: \"%.*s\"", document, SLICE_ARG(buf_slice(&b)));
    buf_fini(&b);
}

/* W-006 */
TEST(an_html_page_names_them_in_its_head)
{
    assert_links("text/html; charset=utf-8",
                 "<title>x</title><link rel=hub href=https://hub.example/>"
                 "<link rel=self href=two>",
                 "hub https://hub.example/\nself "
                 "https://a.example/feeds/two\n");
    assert_links("application/xhtml+xml",
                 "<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x' 'y'>"
                 "<html><head><link rel='hub' href='/h'/></head></html>",
                 "hub https://a.example/h\n");
}

/* W-006 */
TEST(an_atom_feed_names_them_in_the_feed)
{
    assert_links("application/atom+xml",
                 "<feed " ATOM "><title>x</title>"
                 "<link rel='hub' href='https://hub.example/?a=1&amp;b=2'/>"
                 "<link href='/'/>"
                 "<entry><link rel='hub' href='http://evil.example/'/></entry>"
                 "<link rel='self' href='two'/></feed>",
                 "hub https://hub.example/?a=1&b=2\n"
                 "self https://a.example/feeds/two\n");
}

/* W-006 */
TEST(an_rss_feed_names_them_in_its_channel)
{
    assert_links("application/rss+xml",
                 "<rss version='2.0' xmlns:a='http://www.w3.org/2005/Atom'>"
                 "<a:link rel='hub' href='http://evil.example/1'/>"
                 "<channel><link>http://a.example/</link>"
                 "<a:link rel='hub' href='/hub'/>"
                 "<image><a:link rel='hub' href='http://evil.example/2'/>"
                 "</image><item><a:link rel='hub' href='http://evil.example/3'"
                 "/></item><a:link rel='self' href='?x=2'/></channel>"
                 "<a:link rel='hub' href='http://evil.example/4'/></rss>",
                 "hub https://a.example/hub\n"
                 "self https://a.example/feeds/one?x=2\n");
    assert_links("application/rdf+xml",
                 "<r:RDF xmlns='http://purl.org/rss/1.0/' xmlns:r="
                 "'http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
                 "xmlns:a='http://www.w3.org/2005/Atom'>"
                 "<channel><a:link rel='hub' href='/hub'/></channel>"
                 "<item><a:link rel='hub' href='http://evil.example/'/></item>"
                 "</r:RDF>",
                 "hub https://a.example/hub\n");
}

/* W-006: "text/xml" says nothing of which it is (W section 11: 101 to 103). */
TEST(how_it_begins_decides_where_the_type_does_not)
{
    static const char feed[] =
        "<feed " ATOM "><link rel='hub' href='/'/></feed>";
    static const char page[] = "<!DOCTYPE html><link rel='hub' href='/'>";
    static const char *const types[] = {"text/xml", "application/xml",
                                        "TEXT/HTML", "", "image/svg+xml"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_links(types[i], feed, "hub https://a.example/\n");
        assert_links(types[i], page, "hub https://a.example/\n");
    }
    assert_links("text/html", "<link rel='hub' href='/'><link",
                 "hub https://a.example/\n");
}

/* W-006: a program that shows text is not misled by it. */
TEST(other_media_types_are_not_looked_at)
{
    static const char *const types[] = {"text/plain", "application/json",
                                        "image/png", "text/htmlx", "x"};
    struct problem why = {""};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        assert_int_equal(
            pagelinks_read(SLICE("<!DOCTYPE html><link rel=hub href=/>"),
                           slice_of(types[i]), SLICE(URL), on_link, NULL, &why),
            STATUS_UNSUPPORTED);
    assert_string_equal(why.text, "neither HTML nor a feed, but \"x\"");
    assert_int_equal(
        pagelinks_read(SLICE("{}"), SLICE(""), SLICE(URL), on_link, NULL, NULL),
        STATUS_UNSUPPORTED);
}

/* W-007 */
TEST(relative_links_are_resolved_against_the_base)
{
    assert_links("text/html",
                 "<link rel=hub href=h><base href=/b/c/><base href=/d/>"
                 "<link rel=self href=../x>",
                 "hub https://a.example/b/c/h\nself https://a.example/b/x\n");
    assert_links("text/html",
                 "<base href='http://b.example'><link rel=hub href=//c/d>",
                 "hub http://c/d\n");
    assert_links("text/xml",
                 "<feed " ATOM " xml:base='/b/'><link rel='hub' href='c'/>"
                 "<link rel='self' xml:base='d/' href='e'/>"
                 "<link rel='next' href='f'/></feed>",
                 "hub https://a.example/b/c\nself https://a.example/b/d/e\n"
                 "next https://a.example/b/f\n");
    assert_links("text/xml",
                 "<rss xmlns:a='http://www.w3.org/2005/Atom' xml:base='/b/'>"
                 "<channel xml:base='c/'><item xml:base='/evil/'/>"
                 "<a:link rel='hub' href='d'/></channel></rss>",
                 "hub https://a.example/b/c/d\n");
}

TEST(what_no_url_has_is_escaped)
{
    assert_links("text/html",
                 "<link rel=hub href=' /a b\n/\xc3\xa9?\"<\\>^`{|}%zz#'>",
                 "hub https://a.example/a%20b/%C3%A9?%22%3C%5C%3E%5E%60%7B%7C"
                 "%7D%25zz#\n");
}

TEST(links_without_rel_or_href_are_none)
{
    assert_links("text/html",
                 "<link href=/><link rel=hub><link rel=hub href=''>", "");
    assert_links("text/xml", "<feed " ATOM "><link/><link rel='hub'/></feed>",
                 "");
}

TEST(xml_with_a_doctype_or_no_feed_is_refused)
{
    static const char *const documents[] = {
        "<!DOCTYPE rss [<!ENTITY a 'b'>]><rss><channel/></rss>",
        "<?xml version='1.0' encoding='x-nonsense'?><rss/>",
        "<svg/>",
        "<feed " ATOM "><link rel='hub' href='/'></feed>",
    };
    struct problem why = {""};
    struct buf b;

    buf_init(&b, 1000);
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        assert_int_equal(pagelinks_read(slice_of(documents[i]),
                                        SLICE("text/xml"), SLICE(URL), on_link,
                                        &b, &why),
                         STATUS_MALFORMED);
    buf_fini(&b);
}

TEST(the_beginning_is_enough)
{
    assert_links("text/xml",
                 "<feed " ATOM "><link rel='hub' href='/'/><entry><tit",
                 "hub https://a.example/\n");
    assert_links("text/html", "<head><link rel=hub href=/><link rel=self hre",
                 "hub https://a.example/\n");
}

/* W-007 */
TEST(a_link_header_names_them_too)
{
    static const struct {
        const char *header, *links;
    } rows[] = {
        {"", ""},
        {"<two>; rel=\"self hub\"", "self hub https://a.example/feeds/two\n"},
        {"</h>; rel=hub, <https://b.example/>; rel=self",
         "hub https://a.example/h\nself https://b.example/\n"},
        {"</of-another>; rel=hub; anchor=\"/x\", </h>; rel=hub",
         "hub https://a.example/h\n"},
    };

    char far[PAGELINK_URL_MAX + 100];
    struct buf b;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_init(&b, 1u << 16);
        assert_true(pagelinks_of_header(slice_of(rows[i].header), SLICE(URL),
                                        on_link, &b));
        if (!slice_is(buf_slice(&b), rows[i].links))
            fail_msg("%s: \"%.*s\"", rows[i].header, SLICE_ARG(buf_slice(&b)));
        buf_fini(&b);
    }
    /* One that is too long is passed over. */
    memset(far, 'a', sizeof(far) - 1);
    memcpy(far, "</", 2);
    strcpy(far + sizeof(far) - sizeof(">;rel=hub, </h>;rel=hub"),
           ">;rel=hub, </h>;rel=hub");
    buf_init(&b, 1u << 16);
    assert_true(pagelinks_of_header(slice_of(far), SLICE(URL), on_link, &b));
    assert_true(slice_is(buf_slice(&b), "hub https://a.example/h\n"));
    buf_fini(&b);
}

/* W-007 */
TEST(rel_is_a_list_of_words_in_any_case)
{
    struct pagelink link = {.rel = SLICE(" Hub\tself\n\fx ")};

    assert_true(slice_has_word(link.rel, "hub"));
    assert_true(slice_has_word(link.rel, "SELF"));
    assert_true(slice_has_word(link.rel, "x"));
    assert_false(slice_has_word(link.rel, "hu"));
    assert_false(slice_has_word(link.rel, "hub self"));
    assert_false(slice_has_word(link.rel, ""));
}

#include "proto/http/html_links.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "tests/test.h"

static void
on_link(const struct html_link *link, void *user)
{
    struct buf *b = user;

    buf_add_format(b, "%s%.*s>%.*s\n", link->is_base ? "base " : "",
                   SLICE_ARG(link->rel), SLICE_ARG(link->href));
}

/* "rel>href", a line for each link; before it "base " if it is the base. */
static void
assert_read(const char *page, const char *expected)
{
    struct buf b;

    buf_init(&b, 1u << 16);
    html_read(slice_of(page), on_link, &b);
    if (!slice_is(buf_slice(&b), expected))
        fail_msg("%s: \"%.*s\"", page, SLICE_ARG(buf_slice(&b)));
    buf_fini(&b);
}

/* W-006, W-007 */
TEST(links_of_the_head_are_told)
{
    assert_read("<!DOCTYPE html>\n<html lang=en>\n<head>\n"
                "<meta charset=utf-8>\n<link rel=\"hub\" href=\"/hub\">\n"
                "<LINK HREF='x y' REL=\"Self  alternate\"/>\n</head>",
                "hub>/hub\nSelf  alternate>x y\n");
    assert_read("<link rel=hub href=/hub/><link href=a rel=self>",
                "hub>/hub/\nself>a\n");
    assert_read("<link\nrel\n=\nhub\nhref = \" \t/a \" class=x>", "hub>/a\n");
    assert_read("\xef\xbb\xbf <!-- a --><link/rel=hub/href=a/b>",
                "hub/href=a/b>\n");
    assert_read("<link rel=hub><link href=a><link>", "hub>\n>a\n>\n");
}

/* Seen to take minutes where each comment was looked for to the end. */
TEST(a_crowd_of_comments_is_looked_at_once)
{
    static const char end[] = "<html><link rel=hub href=x>";
    struct buf page, told;

    buf_init(&page, 4u << 20);
    for (unsigned i = 0; i < (1u << 20) / 7; i++)
        BUF_ADD(&page, "<!----!>");
    buf_add_slice(&page, slice_of(end));
    assert_true(html_is_page(buf_slice(&page)));
    buf_init(&told, 1u << 16);
    html_read(buf_slice(&page), on_link, &told);
    assert_true(slice_is(buf_slice(&told), "hub>x\n"));
    buf_fini(&told);
    buf_fini(&page);
}

TEST(a_comment_ends_where_browsers_end_it)
{
    assert_read("<!-- a --!><link rel=hub href=x>", "hub>x\n");
    assert_read("<!-- a --- -- > --><link rel=hub href=x>", "hub>x\n");
    assert_read("<!-- a ---><link rel=hub href=x>", "hub>x\n");
    assert_read("<!-- a --! > -- ><link rel=hub href=x>", "");
    assert_read("<!-- a -", "");
    assert_read("<!-- a --", "");
}

TEST(of_two_attributes_of_a_name_the_first_counts)
{
    assert_read("<link rel=hub rel=self href=a href=b>", "hub>a\n");
    assert_read("<link rel rel=hub href=a>", ">a\n");
}

TEST(the_first_base_is_told)
{
    assert_read("<base target=_top><base href=/a/><base href=/b/>"
                "<link rel=hub href=c>",
                "base >/a/\nhub>c\n");
}

/* W-008: text that users put into a page does not redirect trust. */
TEST(what_is_not_the_head_is_passed_over)
{
    static const char *const pages[] = {
        "<html><head></head><body><link rel=hub href=evil>",
        "<html><head></head><link rel=hub href=evil>",
        "<html><body><head><link rel=hub href=evil></head>",
        "<p><link rel=hub href=evil>",
        "text<link rel=hub href=evil>",
        "<head>text<link rel=hub href=evil></head>",
        "<head><div></div><link rel=hub href=evil></head>",
        "<head></body><link rel=hub href=evil></head>",
        "<head><x-own><link rel=hub href=evil></head>",
        "<head><<link rel=hub href=evil></head>",
        "<head><title>a<link rel=hub href=evil></title></head>",
        "<head><title>a</titles><link rel=hub href=evil></title></head>",
        "<head><!-- <link rel=hub href=evil> --></head>",
        "<head><!-- --><!-- > <link rel=hub href=evil></head>",
        "<head><!x <link rel=hub href=evil></head><!>",
        "<head><style>/* <link rel=hub href=evil> */</style></head>",
        "<head><script>'<link rel=hub href=evil>'</script></head>",
        "<head><script><!-- <script></script><link rel=hub href=evil>"
        "</script></head>",
        "<head><noscript><link rel=hub href=evil></noscript></head>",
        "<head><template><link rel=hub href=evil></template></head>",
        "<head><template><p></head><template></template>"
        "<link rel=hub href=evil></template></head>",
        "<head><template><textarea></template><link rel=hub href=evil>"
        "</textarea></template></head>",
        "<head><meta content='a>b<link rel=hub href=evil>'></head>",
        "<head><meta content=\"<link rel=hub href=evil>\"></head>",
        "<head><meta <link rel=hub href=evil></head>",
        "<head></title <link rel=hub href=evil></head>",
    };

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        assert_read(pages[i], "");
}

/* W-006: as browsers find their way through it. */
TEST(links_behind_what_is_passed_over_are_found)
{
    static const char *const heads[] = {
        "<title>a<script>b</title>",
        "<TITLE>a</Title >",
        "<script>a</scrip></script\n>",
        "<script>document.write('</b>')</script>",
        "<script><!-- a </script>",
        "<script><!-- <script> </script> --></script>",
        "<script><!--></script>",
        "<style></style x='>'>",
        "<!--><!---><!-- - -- --!>",
        "<!-- a --!><!-- b -->",
        "<?php x ?>",
        "</p><meta><basefont></>",
        "</title></script></style>",
        "<template><p>text</p><style></template></style></template>",
        "<html><html><head><head>",
        "<title/>a</title>",
        "<meta =\"a\" b='>' c=d\"e f>",
    };
    char page[300];

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        snprintf(page, sizeof(page), "<head>%s<link rel=hub href=a></head>",
                 heads[i]);
        assert_read(page, "hub>a\n");
    }
}

TEST(character_references_are_replaced)
{
    assert_read("<link rel='&#104;ub' href='?a=1&amp;b=2&c=3&copy=4&#x26;"
                "&#38&quot;&AMP;&amp'>",
                "hub>?a=1&b=2&c=3&copy=4&&\"&&amp\n");
    assert_read("<link rel=hub href='&#;&#x;&#xzz;&#0;&#xd800;&#99999999999;"
                "&#xe9;&#x6f6e;&#x1f980;'>",
                "hub>&#;&#x;&#xzz;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                "\xc3\xa9\xe6\xbd\xae\xf0\x9f\xa6\x80\n");
}

TEST(a_tag_that_does_not_end_is_none)
{
    static const char page[] = "<link rel=hub href=\"http://a.example/hub\">";

    for (size_t size = 0; size < sizeof(page) - 1; size++) {
        struct buf b;

        buf_init(&b, 1000);
        html_read((struct slice){page, size}, on_link, &b);
        assert_int_equal(b.size, 0);
        buf_fini(&b);
    }
}

/* Each byte is looked at once, or a few times: 1 MiB of each takes a moment,
 * where the square of it would take longer than a test may. */
TEST(crowds_cost_no_more_than_their_bytes)
{
    static const char *const crowds[] = {
        "<!-- -->",  "<!--", "<link a b c ",     "<meta a=1>", "<script><!--",
        "<title></", "&",    "<link rel='&amp;", "<template>", "<",
        "</",
    };
    size_t size = 1u << 20;
    char *page = malloc(size);

    assert_non_null(page);
    for (size_t i = 0; i < sizeof(crowds) / sizeof(crowds[0]); i++) {
        struct buf b;

        for (size_t at = 0; at < size; at++)
            page[at] = crowds[i][at % strlen(crowds[i])];
        buf_init(&b, 1u << 20);
        html_read((struct slice){page, size}, on_link, &b);
        html_is_page((struct slice){page, size});
        buf_fini(&b);
    }
    free(page);
}

TEST(what_is_too_long_is_no_link)
{
    static char page[HTML_VALUE_MAX + 100];
    size_t size = HTML_VALUE_MAX;
    struct buf b;

    buf_init(&b, 2 * size);
    strcpy(page, "<link rel=hub href=");
    memset(page + 19, 'a', size + 1);
    strcpy(page + 19 + size + 1, "><link rel=self href=b>");
    html_read(slice_of(page), on_link, &b);
    assert_true(slice_is(buf_slice(&b), "self>b\n"));

    buf_clear(&b);
    strcpy(page + 19 + size, ">");
    html_read(slice_of(page), on_link, &b);
    assert_int_equal(b.size, size + 5);
    buf_fini(&b);
}

TEST(pages_are_known_by_how_they_begin)
{
    assert_true(html_is_page(SLICE("<!doctype HTML>")));
    assert_true(html_is_page(SLICE("\xef\xbb\xbf <?xml version='1.0'?>\n"
                                   "<!-- a --><html xmlns='x'>")));
    assert_false(html_is_page(SLICE("<!DOCTYPE rss>")));
    assert_false(html_is_page(SLICE("<?xml version='1.0'?><feed>")));
    assert_false(html_is_page(SLICE("<htmlx>")));
    assert_false(html_is_page(SLICE("text <html>")));
    assert_false(html_is_page(SLICE("")));
}

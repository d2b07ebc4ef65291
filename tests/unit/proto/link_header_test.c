#include "proto/http/link_header.h"

#include <stdio.h>

#include "tests/test.h"

/* "target|rel", one line for each link, so that one comparison covers a
 * header. */
static void
assert_links(const char *header, const char *expected)
{
    struct slice rest = slice_of(header);
    struct weblink link;
    struct buf b;

    buf_init(&b, 4096);
    while (weblink_next(&rest, &link)) {
        buf_add_slice(&b, link.target);
        BUF_ADD(&b, "|");
        buf_add_slice(&b, link.rel);
        BUF_ADD(&b, "\n");
    }
    if (!slice_is(buf_slice(&b), expected))
        fail_msg("%s: \"%.*s\"", header, SLICE_ARG(buf_slice(&b)));
    buf_fini(&b);
}

/* W-007 */
TEST(reads_quoted_and_unquoted_values)
{
    assert_links("<http://a.example/hub>; rel=\"hub\"",
                 "http://a.example/hub|hub\n");
    assert_links("<http://a.example/hub>;rel=hub",
                 "http://a.example/hub|hub\n");
    assert_links("<a>; rel = hub ; title = \"x\"", "a|hub\n");
    assert_links("<a>; REL=\"self hub\"", "a|self hub\n");
}

/* W-007: several lines equal one, joined by commas. */
TEST(reads_several_links_of_one_line)
{
    assert_links("<a>; rel=hub,<b>;rel=\"self\" , <c>;rel=next",
                 "a|hub\nb|self\nc|next\n");
    assert_links(" ,, <a>; rel=hub ,\t, <b>,", "a|hub\nb|\n");
}

/* W-007 */
TEST(a_comma_or_semicolon_within_does_not_split)
{
    assert_links("<http://a.example/x,y;z?q=\"r>; rel=hub, <b>; rel=self",
                 "http://a.example/x,y;z?q=\"r|hub\nb|self\n");
    assert_links("<a>; title=\"one, <x>; rel=hub\"; rel=self", "a|self\n");
    assert_links("<a>; title=\"\\\", <x>\\\\\"; rel=self, <b>; rel=hub",
                 "a|self\nb|hub\n");
}

/* W-007: they resolve against the URL of the answer, which is not known here.
 */
TEST(leaves_relative_targets_as_they_stand)
{
    assert_links("</hub>; rel=hub, <>; rel=self", "/hub|hub\n|self\n");
}

/* RFC 8288 section 3.3 */
TEST(of_several_rels_the_first_counts)
{
    assert_links("<a>; rel=\"hub\"; rel=\"self\"", "a|hub\n");
    assert_links("<a>; rel; rel=\"self\"", "a|\n");
}

TEST(takes_parameters_of_every_kind)
{
    assert_links("<a>", "a|\n");
    assert_links("<a>;", "a|\n");
    assert_links("<a>;;;rel=hub;", "a|hub\n");
    assert_links("<a>; crossorigin, <b>; x=, <c>;, <d>; rel=hub",
                 "a|\nb|\nc|\nd|hub\n");
    assert_links("<a>; crossorigin; rel=hub; title*=UTF-8''%e2%82%ac",
                 "a|hub\n");
    assert_links("<a>; rel=", "a|\n");
    assert_links("<a>; rel=\"\"", "a|\n");
    assert_links("<a>; xrel=hub; relx=self", "a|\n");
}

TEST(ends_at_what_is_malformed)
{
    assert_links("", "");
    assert_links("http://a.example/; rel=hub", "");
    assert_links("<http://a.example/; rel=hub", "");
    assert_links("<", "");
    assert_links("<a>; rel=\"hub", "");
    assert_links("<a>; rel=\"hub\\", "");
    assert_links("<a>; rel=\"hub\\\"", "");
    assert_links("<a>; rel=\"hub\"x, <b>; rel=self", "");
    assert_links("<a> rel=hub", "");
    assert_links("<a>; rel=hub, b; rel=self, <c>; rel=self", "a|hub\n");
}

/* W-007 */
TEST(knows_the_words_of_a_rel_in_whatever_case)
{
    struct weblink link = {.rel = SLICE(" HUB\thttp://a.example/rel  self ")};

    assert_true(slice_has_word(link.rel, "hub"));
    assert_true(slice_has_word(link.rel, "Self"));
    assert_true(slice_has_word(link.rel, "http://a.example/rel"));
    assert_false(slice_has_word(link.rel, "hu"));
    assert_false(slice_has_word(link.rel, "hubs"));
    assert_false(slice_has_word(link.rel, ""));
    link.rel = (struct slice){NULL, 0};
    assert_false(slice_has_word(link.rel, "hub"));
}

/* W-083: whether there is exactly one can be seen. */
TEST(finds_the_first_and_counts_them_all)
{
    struct slice header = SLICE("<a>; rel=next, <b>; rel=\"self hub\", "
                                "<c>; rel=Hub, <d>; rel=hubs");
    struct slice target;
    size_t n = 9;

    assert_true(weblink_find(header, "hub", &target, &n));
    assert_true(slice_is(target, "b"));
    assert_int_equal(n, 2);
    assert_true(weblink_find(header, "self", &target, NULL));
    assert_true(slice_is(target, "b"));
    assert_false(weblink_find(header, "up", &target, &n));
    assert_int_equal(target.size, 0);
    assert_int_equal(n, 0);
}

/* RFC 8288 section 3.2: such a link names the hub of the anchor. */
TEST(does_not_find_links_of_another_resource)
{
    struct slice target;
    size_t n;

    assert_true(weblink_find(
        SLICE("<a>; rel=hub; anchor=\"http://b.example/\", <c>; rel=hub"),
        "hub", &target, &n));
    assert_true(slice_is(target, "c"));
    assert_int_equal(n, 1);
}

/* W-002, W-083 */
TEST(writes_links_that_it_reads)
{
    struct buf b;

    buf_init(&b, 1000);

    weblink_add(&b, SLICE("http://a.example/hub?x=1,2;3"), "hub");
    weblink_add(&b, SLICE("http://a.example/topic"), "self");

    assert_true(slice_is(buf_slice(&b),
                         "<http://a.example/hub?x=1,2;3>; rel=\"hub\", "
                         "<http://a.example/topic>; rel=\"self\""));
    BUF_ADD(&b, "\0");
    assert_links(b.data, "http://a.example/hub?x=1,2;3|hub\n"
                         "http://a.example/topic|self\n");
    buf_fini(&b);
}

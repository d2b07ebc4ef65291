#include "proto/http/accept_header.h"

#include "tests/test.h"

/* RFC 9110 section 12.5.1. */
TEST(chooses_what_the_client_likes_best)
{
    static const char *const offers[] = {"application/json", "application/xml",
                                         "text/xml"};

    static const struct {
        const char *header;
        int chosen;
    } rows[] = {
        {"", 0},
        {"  ", 0},
        {"*/*", 0},
        {"application/json", 0},
        {"application/xml", 1},
        {"APPLICATION/XML", 1},
        {"text/xml", 2},
        {"text/*", 2},
        {"application/*", 0},
        {"text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8",
         1},
        {"application/json;q=0.5, application/xml;q=0.501", 1},
        {"application/xml;q=1.0,application/json;q=1", 0},
        {"*/*;q=0.1, application/json;q=0", 1},
        {"application/json;q=0", -1},
        {"*/*, application/*;q=0", 2},
        {"application/xml;charset=utf-8;q=0.2, text/xml;q=0.3", 2},
        {"text/xml ; q=0.3 , application/json ; q=0.2", 2},
        {"image/png", -1},
        {"application/jso", -1},
        {"*", 0},
        {"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", 0}, /* Java */
        {",,;;,", 0},
        {"xml", 0},
        {"xml, image/png", -1},
        {"application/json;x=\"a,b;q=0\"", 0},
        {"application/xml;x=\"\\\",application/json", 1},
        {"application/xml;q=nonsense", 1},
        {"text/xml;q=0.9999999", 2},
        {"application/json;q=0, application/json", 0},
        {"text/xml;q=0.9, application/xml;q=0.5, text/xml;q=0.1", 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int chosen = accept_choose(slice_of(rows[i].header), offers, 3);

        if (chosen != rows[i].chosen)
            fail_msg("%s: %d", rows[i].header, chosen);
    }
    assert_int_equal(accept_choose(SLICE(""), offers, 0), -1);
}

/* Naming a type */

static bool
is_wanted(const char *accept)
{
    return accept_names(slice_of(accept), "text/event-stream");
}

TEST(finds_the_type_wherever_it_stands)
{
    assert_true(is_wanted("text/event-stream"));
    assert_true(is_wanted("Text/Event-Stream"));
    assert_true(is_wanted("text/html, text/event-stream"));
    assert_true(is_wanted(",\t text/event-stream ,"));
    assert_true(is_wanted("text/event-stream;charset=utf-8"));
    assert_true(is_wanted("a/b;c=\"x, y;q=0\\\"\", text/event-stream"));
}

/* RFC 9110 section 12.4.2: a quality of 0 means "not acceptable"; every small
 * one above is acceptable. */
TEST(honours_qualities)
{
    assert_true(is_wanted("text/event-stream;q=1"));
    assert_true(is_wanted("*/*, text/event-stream; q=0.001"));
    assert_true(is_wanted("text/event-stream; q=0.1, text/html"));
    assert_true(is_wanted("text/event-stream;q=nonsense"));
    assert_false(is_wanted("text/event-stream;q=0"));
    assert_false(is_wanted("text/event-stream ; charset=utf-8 ; Q=0.000"));
    assert_false(is_wanted("text/html, text/event-stream;q=0.0"));
}

/* A client that takes anything has not asked for a stream. */
TEST(does_not_count_ranges_and_other_types)
{
    assert_false(is_wanted(""));
    assert_false(is_wanted(" , ;,"));
    assert_false(is_wanted("*/*"));
    assert_false(is_wanted("text/*"));
    assert_false(is_wanted("text/event-stream2"));
    assert_false(is_wanted("xtext/event-stream"));
    assert_false(is_wanted("text/html;x=\"text/event-stream\""));
    assert_false(is_wanted("text/html;x=\", text/event-stream"));
}

/* RFC 9110 section 12.5.1: pages are for people who prefer them, and for those
 * who accept nothing else. Everyone else gets what programs read. */
TEST(prefers_a_page)
{
    static const struct {
        const char *header;
        bool prefers; /* of a person */
        bool is_all;  /* nothing else would do */
    } rows[] = {
        {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,"
         "image/webp,*/*;q=0.8",
         true}, /* Firefox, Chromium, Safari */
        {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*", true},
        {"text/html, */*; q=0.01", true},
        {"text/html", true, true},
        {"TEXT/HTML;level=1", true, true},
        {"text/html, application/xhtml+xml, image/png;q=0.5", true, true},
        {"text/html, */*;q=0", true, true},
        {"text/html;q=0.1", true, true},
        {"text/html;q=0.9, application/json;q=0.8", true},
        {"", false},
        {"*/*", false},
        {"text/*", false},
        {"text/html;q=0", false},
        {"text/html;q=0, */*", false},
        {"text/html;q=0.5, */*", false},
        {"application/xml, text/html", false},
        {"text/html, text/xml", false},
        {"text/html, application/json", false},
        {"application/*, text/html;q=0.9", false},
        {"application/problem+json, text/html;q=0.5", false},
        {"text/html;q=0.4, text/event-stream;q=0.5", false},
        {"text/htm", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice header = slice_of(rows[i].header);

        if (accept_prefers_page(header, true) != rows[i].prefers ||
            accept_prefers_page(header, false) != rows[i].is_all)
            fail_msg("%s", rows[i].header);
    }
}

/*
 * history_odd_test.c - documents of another kind than their name.
 */
#include "client/history/history.h"
#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

FIXTURE(set_stage, clear_stage);

/* The entries decide the kind of a document, not its root. */
TEST(an_index_may_pass_for_a_list_and_a_list_for_an_index)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(s, LIST(FROM("05"),
                       URL_3 AS_URL("/4.xml", "capability=\"changelist\"")));
    tells(s, AT("05"), "d e ", NULL);

    put(s, "/c.xml",
        INDEX(FROM("01"),
              "<sitemap><loc>http://r.example/x</loc><rs:md change=\"created\""
              " datetime=\"" DAY("02") "\"/></sitemap>"));
    tells(s, AT("01"), "x ", AT_N("02", "1"));
}

/* a document that is named as an archive may be a list itself. */
TEST(a_list_may_pass_for_an_archive)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(
        s, INDEX(FROM("05"), LINK("archives", "/archive.xml") PART_3 PART_4));
    put(s, "/archive.xml", ARCHIVE_INDEX(NAMED("/1.xml") NAMED("/2.xml")));

    tells(s, AT("02"), "a b c d e ", NULL);
    assert_int_equal(site_count(s->site, NULL), 8);
}

TEST(pages_and_links_without_end_are_broken_or_gone)
{
    struct stage *s = *state;

    offer(s, &s->offered.change_list, "/a.xml");
    put(s, "/a.xml", LIST(FROM("05"), LINK("prev", "/b.xml")));
    put(s, "/b.xml", LIST(FROM("04"), LINK("prev", "/a.xml")));
    is_gone(s, AT("01"));
    assert_int_equal(site_count(s->site, NULL), 2);

    put(s, "/a.xml",
        LIST(FROM("05"), LINK("archives", "/x.xml") LINK("index", "/x.xml")));
    put(s, "/x.xml", ARCHIVE_INDEX(NAMED("/x.xml")));
    is_gone(s, AT("01"));
}

/* A `next` that leads to an earlier page ends the list. */
TEST(pages_in_a_circle_are_read_once)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("02"), LINK("next", "/p2.xml") CHANGE("b", "03")));
    put(s, "/p2.xml",
        LIST(FROM("01"), LINK("next", "/p3.xml") CHANGE("a", "02")));
    put(s, "/p3.xml",
        LIST(FROM("03"), LINK("next", "/p2.xml") CHANGE("c", "04")));
    tells(s, AT("01"), "a b c ", AT_N("04", "1")); /* the earliest `from` */
    assert_int_equal(site_count(s->site, NULL), 3);
}

/* Without a `from` anywhere, a list begins with its earliest entry. */
TEST(lists_that_say_nothing_of_their_begin_are_looked_into)
{
    struct stage *s = *state;

    offer_list(s, INDEX("", NAMED("/1.xml") NAMED("/2.xml")));
    put(s, "/1.xml",
        LIST("", UNTIMED("u") CHANGE("b", "03") CHANGE("a", "02")));
    put(s, "/2.xml", LIST("", CHANGE("c", "04")));
    tells(s, AT_N("02", "1"), "u b c ", NULL);
    is_gone(s, AT("01"));
}

TEST(an_index_does_not_lead_to_indexes_or_its_pages_to_lists)
{
    struct stage *s = *state;

    offer_list(s, INDEX("", NAMED("/1.xml") NAMED("/2.xml")));
    put(s, "/1.xml", INDEX("", NAMED("/x.xml")));
    put(s, "/2.xml", INDEX("", NAMED("/y.xml")));
    assert_int_equal(read_after(s, AT("01")), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "/2.xml is an index within an index"));

    put(s, "/c.xml", INDEX("", LINK("next", "/p2.xml") NAMED("/1.xml")));
    put(s, "/p2.xml", LIST(FROM("01"), CHANGE("a", "02")));
    assert_int_equal(read_after(s, AT("01")), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "one of its pages is a list"));
}

/* The history keeps no ETag that is longer than most: it reads the list again.
 */
TEST(an_etag_may_be_longer_than_what_is_kept)
{
    struct stage *s = *state;
    char header[600];

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02")));
    snprintf(header, sizeof(header), "ETag: \"%0400d\"", 7);
    site_headers(s->site, "/c.xml", header);
    tells(s, AT("01"), "a ", AT_N("02", "1"));
    tells_again(s, AT("01"), "a ", AT_N("02", "1"));
    assert_int_equal(site_answered(s->site, "/c.xml", 1), 200);
}

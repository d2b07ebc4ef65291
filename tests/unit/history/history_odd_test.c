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

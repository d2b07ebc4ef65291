/*
 * history_list_test.c - the changes of one Change List after a place: their
 * order, their times, the beginning of the list.
 */
#include "client/history/history.h"
#include "tests/unit/history/history_stage.h"

FIXTURE(set_stage, clear_stage);

/* the changes after a place, and the place after each. */
TEST(one_list_tells_what_is_after_the_place)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"),
                       CHANGE("a", "02") CHANGE("b", "03") CHANGE("c", "04")));

    tells(s, AT("01"), "a b c ", AT_N("04", "1"));
    BUF_ADD(&s->told, "\0");
    assert_string_equal(s->told.data,
                        "a " AT_N("02", "1") "\nb " AT_N("03", "1") "\nc " AT_N(
                            "04", "1") "\n");
    tells(s, AT_N("02", "1"), "b c ", AT_N("04", "1"));
    tells(s, AT("03"), "b c ", NULL);
    tells(s, AT_N("04", "1"), "", AT_N("04", "1"));
}

/* nobody knows what happened before the list begins. */
TEST(a_list_that_begins_later_is_gone)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("02"), CHANGE("a", "03")));
    is_gone(s, AT("01"));
    assert_non_null(strstr(s->why.text, "2026-09-02T00:00:00"));

    /* No list has all changes that ever happened, either. */
    is_gone(s, "0");
}

/* Times tie, as sources write lists to the second: the count says how many
 * entries are behind us. */
TEST(entries_of_the_same_moment_are_counted)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"),
                       CHANGE("a", "02") CHANGE("b", "02") CHANGE("a", "02")));
    tells(s, AT("02"), "a b a ", AT_N("02", "3"));
    tells(s, AT_N("02", "1"), "b a ", AT_N("02", "3"));

    put(s, "/c.xml",
        LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "02") CHANGE("a", "02")
                             CHANGE("d", "02") CHANGE("e", "03")));
    tells(s, AT_N("02", "3"), "d e ", AT_N("03", "1"));
}

/* documents that are not in order, or the other way round. R-413:
 * entries of one second keep their order. */
TEST(entries_are_put_in_order)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("d", "05") CHANGE("c", "04")
                                       CHANGE("b", "03") CHANGE("a", "02")));
    tells(s, AT("01"), "a b c d ", AT_N("05", "1"));
    put(s, "/c.xml",
        LIST(FROM("01"), CHANGE("d", "05") CHANGE("c", "04") CHANGE("b", "04")
                             CHANGE("a", "02")));
    tells(s, AT("01"), "a c b d ", AT_N("05", "1"));

    put(s, "/c.xml",
        LIST(FROM("01"), CHANGE("c", "04") CHANGE("a", "02") CHANGE("d", "04")
                             CHANGE("b", "03")));
    tells(s, AT("01"), "a b c d ", AT_N("04", "2"));
}

TEST(lastmod_stands_for_datetime_where_there_is_none)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), MODIFIED("b", "03") MODIFIED("a", "02")));
    tells(s, AT("02"), "a b ", AT_N("03", "1"));

    /* If other entries have a datetime, an entry without one has the datetime
     * of its resource. */
    put(s, "/c.xml",
        LIST(FROM("01"),
             CHANGE("a", "03") MODIFIED("b", "02") CHANGE("c", "04")));
    tells(s, AT("01"), "a b c ", NULL);
    BUF_ADD(&s->told, "\0");
    assert_non_null(strstr(s->told.data, "b " AT_N("03", "2")));

    /* the entry has the time of the one before, but may have happened
     * later, until the one behind it. */
    put(s, "/c.xml",
        LIST("", CHANGE("a", "02") MODIFIED("b", "05") CHANGE("c", "04")));
    tells(s, AT("03"), "b c ", NULL);
    tells(s, AT("05"), "", NULL);

    /* The first entries of a list have the time of the entry behind them. */
    put(s, "/c.xml", LIST("", UNTIMED("a") CHANGE("b", "03")));
    tells(s, AT("03"), "a b ", AT_N("03", "2"));
}

/* a list that only grows at its end needs no times. */
TEST(entries_without_any_time_are_counted_from_the_beginning)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), UNTIMED("a") UNTIMED("b")));
    tells(s, AT("01"), "a b ", AT_N("01", "2"));
    put(s, "/c.xml", LIST(FROM("01"), UNTIMED("a") UNTIMED("b") UNTIMED("c")));
    tells(s, AT_N("01", "2"), "c ", AT_N("01", "3"));
}

TEST(a_list_without_from_begins_with_its_first_entry)
{
    struct stage *s = *state;

    offer_list(s, LIST("", CHANGE("a", "02") CHANGE("b", "03")));
    tells(s, AT_N("02", "1"), "b ", NULL);
    is_gone(s, AT("01"));

    /* The list is still empty. */
    put(s, "/c.xml", LIST("", ""));
    tells(s, AT("01"), "", AT("01"));
}

/* A window that slides: lost entries make the place gone, entries still to come
 * are reported; its `until` moves the place forward while nothing happens. */
TEST(a_sliding_window_is_read_as_far_as_it_reaches)
{
    struct stage *s = *state;

    offer_list(
        s, LIST(FROM("01") UNTIL("08"), CHANGE("a", "02") CHANGE("b", "03")));
    tells(s, AT("01"), "a b ", AT("08"));
    put(s, "/c.xml", LIST(FROM("08") UNTIL("15"), CHANGE("c", "09")));
    tells(s, AT("08"), "c ", AT("15"));
    is_gone(s, AT("07"));

    /* An `until` that is still to come says nothing. */
    put(s, "/c.xml",
        LIST(FROM("08") "until=\"2999-01-01T00:00:00Z\"", CHANGE("c", "09")));
    tells(s, AT("08"), "c ", AT_N("09", "1"));
}

/* A time in the future is somebody's mistake, or an embargo: a place after it
 * would skip the changes until then. */
TEST(times_that_are_still_to_come_are_not_believed)
{
    struct stage *s = *state;

    offer_list(
        s, LIST(FROM("01"),
                CHANGE("a", "02") "<url><loc>http://r.example/b</loc><rs:md "
                                  "change=\"updated\" "
                                  "datetime=\"2999-01-01T00:00:00Z\"/></url>"));
    tells(s, AT("01"), "a b ", AT_N("02", "2"));
    put(s, "/c.xml",
        LIST(FROM("01"),
             CHANGE("a",
                    "02") "<url><loc>http://r.example/b</loc><rs:md "
                          "change=\"updated\" "
                          "datetime=\"2999-01-01T00:00:00Z\"/></url>" CHANGE(
                              "c", "03")));
    tells_on(s, "c ");
    tells_on(s, "");

    put(s, "/c.xml",
        LIST(FROM("01"),
             MODIFIED("a", "02") "<url><loc>http://r.example/b</loc><lastmod>"
                                 "2999-01-01</lastmod></url>" MODIFIED("c",
                                                                       "03")));
    tells(s, AT("01"), "a b c ", AT_N("03", "1"));
}

TEST(gzip_without_a_type_and_relative_urls_are_read)
{
    struct stage *s = *state;
    struct buf packed;

    buf_init(&packed, SIZE_MAX);
    gzip_add(&packed, SLICE(LIST(FROM("01"), "<url><loc>r/a</loc><rs:md change="
                                             "\"deleted\" datetime=\"" DAY(
                                                 "02") "\"/></url>")));
    site_put(s->site, "/c.xml.gz", NULL, buf_slice(&packed));
    buf_fini(&packed);
    offer(s, &s->offered.change_list, "/c.xml.gz");
    tells(s, AT("01"), "a ", NULL);
}

/* A list that breaks off has reported no change. */
TEST(a_list_is_told_whole_or_not_at_all)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "03")));
    site_cut(s->site, "/c.xml", 250);
    assert_int_equal(read_after(s, AT("01")), STATUS_UNREACHABLE);
    assert_string_equal(s->names, "");
    assert_string_equal(s->upto, AT("01"));
    tells(s, AT("01"), "a b ", NULL);
}

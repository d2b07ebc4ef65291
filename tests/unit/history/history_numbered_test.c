/*
 * history_numbered_test.c - Change Lists of Tidings: their entries have
 * numbers.
 */
#include "base/clock.h"
#include "client/history/history.h"
#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

/* Lists of Tidings */

static void
put_numbered_lists(struct stage *s)
{
    offer_list(s, INDEX(FROM("01"), PART_1 PART_2 PART("/3.xml", FROM("05"))));
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03") SEQS("0", "2"),
             NUMBERED("a", "02", "1") NUMBERED("b", "03", "2")));
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05") SEQS("2", "3"),
             LINK("prev", "/1.xml") NUMBERED("c", "04", "3")));
    put(s, "/3.xml",
        LIST(FROM("05") SEQS("3", "5"),
             LINK("prev", "/2.xml") NUMBERED("d", "06", "4")
                 NUMBERED("e", "06", "5")));
}

FIXTURE(set_stage, clear_stage);

/* A list may repeat an entry, or begin before the place. */
TEST(an_entry_that_comes_twice_is_told_once)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01") SEQS("0", "2"),
                       NUMBERED("a", "02", "1") NUMBERED("a", "02", "1")
                           NUMBERED("b", "03", "2")));
    tells(s, "0", "a b ", EPOCH "-2");
    tells(s, EPOCH "-1", "b ", EPOCH "-2");
}

/* seqs decide, not times. */
TEST(lists_of_tidings_are_read_by_their_numbers)
{
    struct stage *s = *state;

    put_numbered_lists(s);
    tells(s, EPOCH "-0", "a b c d e ", EPOCH "-5");
    BUF_ADD(&s->told, "\0");
    assert_non_null(strstr(s->told.data, "c " EPOCH "-3\n"));
    tells(s, "0", "a b c d e ", EPOCH "-5");
    tells(s, EPOCH "-2", "c d e ", EPOCH "-5");
    assert_int_equal(site_count(s->site, "/1.xml"), 4); /* probed and read */
    tells(s, EPOCH "-4", "e ", EPOCH "-5");
    tells(s, EPOCH "-5", "", EPOCH "-5");

    /* By time, too; from then on by number. */
    tells(s, AT("04"), "c d e ", EPOCH "-5");
    tells(s, AT_N("04", "1"), "d e ", EPOCH "-5"); /* "c" was reported */
    tells(s, AT("07"), "", EPOCH "-5");
}

TEST(a_list_that_falls_silent_is_not_waited_for_longer_than_told)
{
    struct stage *s = *state;
    int64_t begun_ms = clock_steady_ms();

    put_numbered_lists(s);
    site_hold(s->site, "/3.xml");
    clock_skip_waits(transfers_held, s->site);
    s->silence_s = 4;
    assert_int_equal(read_after(s, EPOCH "-4"), STATUS_UNREACHABLE);
    assert_in_range(clock_steady_ms() - begun_ms, 4000, 5000);
    assert_non_null(strstr(s->why.text, "/3.xml: "));
}

/* */
TEST(numbers_that_the_lists_do_not_have_are_gone)
{
    struct stage *s = *state;

    put_numbered_lists(s);
    is_gone(s, EPOCH "-6");
    assert_non_null(strstr(s->why.text, "ahead"));
    assert_string_equal(s->upto, EPOCH "-5");
    is_gone(s, "fedcba9876543210-2");

    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05") SEQS("2", "3"), NUMBERED("c", "04", "3")));
    put(s, "/c.xml", INDEX(FROM("03"), PART_2 PART("/3.xml", FROM("05"))));
    is_gone(s, EPOCH "-1");
    assert_non_null(strstr(s->why.text, "after entry 2"));

    put(s, "/c.xml", LIST(FROM("01"), CHANGE("a", "02")));
    is_gone(s, EPOCH "-1");
}

/* by the links from list to list, where there is no index. */
TEST(numbered_lists_lead_back_by_prev_and_on_by_next)
{
    struct stage *s = *state;

    put_numbered_lists(s);
    offer(s, &s->offered.change_list, "/3.xml");
    tells(s, EPOCH "-0", "a b c d e ", EPOCH "-5");

    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03") SEQS("0", "2"),
             LINK("next", "/2.xml") NUMBERED("a", "02", "1")
                 NUMBERED("b", "03", "2")));
    offer(s, &s->offered.change_list, "/1.xml");
    tells(s, EPOCH "-1", "b c ", EPOCH "-3");
}

TEST(a_hole_in_numbered_lists_is_broken)
{
    struct stage *s = *state;

    put_numbered_lists(s);
    put(s, "/2.xml", LIST(FROM("03") UNTIL("05") SEQS("2", "3"), ""));
    assert_int_equal(read_after(s, EPOCH "-1"), STATUS_MALFORMED);
    assert_string_equal(s->names, "b ");
    assert_string_equal(s->upto, EPOCH "-2");
    assert_non_null(strstr(s->why.text, "/2.xml: it ends with entry 2, not"));

    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05") SEQS("2", "4"), NUMBERED("c", "04", "4")));
    assert_int_equal(read_after(s, EPOCH "-1"), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "after entry 2 comes 4"));
}

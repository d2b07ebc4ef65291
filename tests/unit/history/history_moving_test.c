/*
 * history_moving_test.c - Change Lists that change while the history reads
 * them, or between two readings; and readers that pause in between.
 */
#include "client/history/history.h"
#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

FIXTURE(set_stage, clear_stage);

/* Paused and resumed while a document is on its way: it is asked for once. */
TEST(a_pause_in_the_middle_of_a_document_asks_for_it_once)
{
    struct stage *s = *state;
    struct history_plan plan = {.offered = &s->offered, .notes = &s->notes};

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "03")));
    site_hold(s->site, "/c.xml");
    assert_int_equal(source_position_read(slice_of(AT("01")), &plan.after),
                     STATUS_OK);
    s->history = history_start(s->client, &plan, on_entry, on_end, s);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(td_service(s->client), TD_OK);
        history_hold(s->history, true);
        assert_int_equal(td_service(s->client), TD_OK);
        history_hold(s->history, false);
    }
    site_await(s->site, "/c.xml", 1);
    site_release(s->site, "/c.xml");
    go_on(s);
    assert_int_equal(s->why.rc, STATUS_OK);
    assert_string_equal(s->names, "a b ");
    assert_int_equal(site_count(s->site, "/c.xml"), 1);
}

static void
move_numbered_lists(struct stage *s)
{
    put(s, "/c.xml",
        INDEX(FROM("01"), PART_1 PART("/2.xml", FROM("03") UNTIL("07"))
                              PART("/open.xml", FROM("07"))));
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("07") SEQS("2", "4"),
             NUMBERED("c", "04", "3") NUMBERED("d", "06", "4")));
    put(s, "/open.xml",
        LIST(FROM("07") SEQS("4", "5"), NUMBERED("e", "08", "5")));
}

/* The source closes the open list and begins another while the history reports
 * older ones: it reads the closed list at its new address. */
TEST(a_list_that_is_closed_meanwhile_is_read_where_it_is_then)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), PART_1 PART("/open.xml", FROM("03"))));
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03") SEQS("0", "2"),
             NUMBERED("a", "02", "1") NUMBERED("b", "03", "2")));
    put(s, "/open.xml",
        LIST(FROM("03") SEQS("2", "3"), NUMBERED("c", "04", "3")));
    s->moves_at = 1;
    s->move = move_numbered_lists;
    tells(s, EPOCH "-0", "a b c d e ", EPOCH "-5");
}

static void
move_timed_lists(struct stage *s)
{
    put(s, "/c.xml",
        INDEX(FROM("01"), PART_1 PART("/2.xml", FROM("03") UNTIL("07"))
                              PART("/open.xml", FROM("07"))));
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("07"), CHANGE("c", "04") CHANGE("d", "06")));
    put(s, "/open.xml", LIST(FROM("07"), CHANGE("e", "08")));
}

/* The same by times, whether the index states where the list begins or the
 * history has to look. */
TEST(a_list_without_numbers_that_is_closed_meanwhile_is_read_there)
{
    struct stage *s = *state;

    s->move = move_timed_lists;
    for (int is_told = 0; is_told < 2; is_told++) {
        offer(s, &s->offered.change_list, "/c.xml");
        put(s, "/c.xml",
            is_told ? INDEX(FROM("01"), PART_1 PART("/open.xml", FROM("03")))
                    : INDEX("", PART("/1.xml", "") PART("/open.xml", "")));
        put(s, "/1.xml",
            LIST(FROM("01") UNTIL("03"), CHANGE("a", "02") CHANGE("b", "03")));
        put(s, "/open.xml", LIST(FROM("03"), CHANGE("c", "04")));
        s->moves_at = 1;
        tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
    }
}

static void
move_linked_lists(struct stage *s)
{
    put(s, "/open.xml",
        LIST(FROM("07"), LINK("prev", "/2.xml") CHANGE("e", "08")));
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("07"),
             LINK("prev", "/1.xml") CHANGE("c", "04") CHANGE("d", "06")));
}

TEST(a_list_that_is_closed_meanwhile_is_found_by_prev)
{
    struct stage *s = *state;

    offer(s, &s->offered.change_list, "/open.xml");
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03"), CHANGE("a", "02") CHANGE("b", "03")));
    put(s, "/open.xml",
        LIST(FROM("03"), LINK("prev", "/1.xml") CHANGE("c", "04")));
    s->moves_at = 1;
    s->move = move_linked_lists;
    tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
}

static void
rename_a_list(struct stage *s)
{
    put(s, "/c.xml", INDEX(FROM("01"), PART_1 PART("/new.xml", FROM("03"))));
    put(s, "/new.xml", LIST(FROM("03"), CHANGE("c", "04")));
    site_delete(s->site, "/old.xml");
}

TEST(a_list_that_is_renamed_meanwhile_is_not_gone)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), PART_1 PART("/old.xml", FROM("03"))));
    put(s, "/1.xml", LIST(FROM("01") UNTIL("03"), CHANGE("a", "02")));
    put(s, "/old.xml", LIST(FROM("03"), ""));
    s->moves_at = 1;
    s->move = rename_a_list;
    tells(s, AT("01"), "a c ", AT_N("04", "1"));
}

/* The same, where the index follows later. */
TEST(a_list_that_is_nowhere_for_a_while_is_looked_for)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);
    site_status(s->site, "/2.xml", 404, NULL, 3);
    tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
    assert_int_equal(site_count(s->site, "/c.xml"), 4);
}

/* Reads after `after`, with the validators of the last time; the source changes
 * while the request for `path` waits. */
static void
tells_while(struct stage *s, const char *after, const char *path,
            void (*move)(struct stage *s), const char *names)
{
    struct history_plan plan = {.offered = &s->offered, .notes = &s->notes};
    unsigned n = site_count(s->site, path) + 1;

    assert_int_equal(source_position_read(slice_of(after), &plan.after),
                     STATUS_OK);
    s->names[0] = '\0';
    s->n_told = 0;
    s->is_over = false;
    site_hold(s->site, path);
    s->history = history_start(s->client, &plan, on_entry, on_end, s);
    while (site_count(s->site, path) < n)
        assert_int_equal(td_service(s->client), TD_OK);
    move(s);
    site_release(s->site, path);
    go_on(s);
    if (s->why.rc)
        fail_msg("%s", s->why.text);
    assert_string_equal(s->names, names);
}

static void
put_open_list(struct stage *s)
{
    offer_list(s, INDEX(FROM("01"), PART_1 PART("/open.xml", FROM("03"))));
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03"), CHANGE("a", "02") CHANGE("b", "03")));
    put(s, "/open.xml", LIST(FROM("03"), CHANGE("c", "04")));
    tells(s, AT("03"), "b c ", AT_N("04", "1"));
}

/* The open list is rotated between the index and the look at it. */
TEST(a_list_that_is_closed_before_it_is_looked_at_is_read_there)
{
    struct stage *s = *state;

    put_open_list(s);
    tells_while(s, AT_N("04", "1"), "/open.xml", move_timed_lists, "d e ");
    tells_on(s, "");
}

static void
move_to_an_empty_list(struct stage *s)
{
    move_timed_lists(s);
    put(s, "/open.xml", LIST("", ""));
}

/* The new open list is empty and does not change, but the closed one has
 * news. */
TEST(an_open_list_that_stays_empty_hides_none_that_was_closed)
{
    struct stage *s = *state;

    put_open_list(s);
    tells_while(s, AT_N("04", "1"), "/open.xml", move_to_an_empty_list, "");
    tells_again(s, AT_N("04", "1"), "d ", NULL);
    tells_again(s, AT_N("06", "1"), "", NULL);
    assert_int_equal(site_answered(s->site, "/open.xml",
                                   site_count(s->site, "/open.xml") - 1),
                     304);
}

static void
put_archive_of_three(struct stage *s)
{
    put(s, "/archive.xml", ARCHIVE(URL_1 URL_2 URL_3));
}

/* A list that has left the index is not yet in the archive: the history waits
 * for it and leaves no hole. */
TEST(a_list_on_its_way_to_the_archive_is_not_passed_over)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(s, INDEX(FROM("07"), LINK("archives", "/archive.xml") PART_4));
    put(s, "/archive.xml", ARCHIVE(URL_1 URL_2));
    tells_while(s, AT_N("04", "1"), "/2.xml", put_archive_of_three, "d e ");

    /* Nor where the place is in the hole itself, or nothing is found. */
    put(s, "/archive.xml", ARCHIVE(URL_1 URL_2));
    tells_while(s, "@2026-09-05T12:00:00.000000Z+0", "/2.xml",
                put_archive_of_three, "d e ");
    site_status(s->site, "/archive.xml", 404, NULL, 2);
    tells(s, AT("02"), "a b c d e ", AT_N("08", "1"));
}

/* a place before all that the archive has is gone, at the first look. */
TEST(a_place_before_the_archive_is_gone_at_once)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(s, INDEX(FROM("07"), LINK("archives", "/archive.xml") PART_4));
    put_archive_of_three(s);
    is_gone(s, "@2026-08-31T00:00:00.000000Z+0");
    assert_int_equal(site_count(s->site, "/c.xml"), 1);
}

/* all pages of an index, in any order; a list that moves from one page
 * to the next is one list. */
TEST(an_index_may_come_in_pages_that_move_on)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(s, INDEX(FROM("01"), LINK("next", "/c.xml?2") PART_4 PART_3));
    put(s, "/c.xml?2", INDEX(FROM("01"), PART_3 PART_2));
    site_headers(s->site, "/c.xml?2", "Link: </c.xml?3>; rel=\"next\"");
    put(s, "/c.xml?3", INDEX(FROM("01"), LINK("next", "/c.xml") PART_1));
    tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
    assert_int_equal(site_count(s->site, NULL), 3 + 4);

    put(s, "/c.xml?3", LIST(FROM("01"), CHANGE("x", "02")));
    s->notes.etag[0] = '\0';
    assert_int_equal(read_after(s, AT("01")), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "one of its pages is a list"));
}

/* If an index states another time than its list, the history does not believe
 * the index for ever: it reports the changes after a few more looks. */
TEST(an_index_that_disagrees_with_its_list_costs_some_looks)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), PART_1 PART("/2.xml", FROM("03"))));
    put(s, "/1.xml", LIST(FROM("01") UNTIL("03"), CHANGE("a", "02")));
    put(s, "/2.xml", LIST(FROM("05"), CHANGE("c", "06")));
    tells(s, AT("01"), "a c ", AT_N("06", "1"));
    assert_int_equal(site_count(s->site, "/c.xml"), 6);
}

/* A window that slides within one moment, which may be a whole day: the history
 * does not mistake the remaining entries of that moment for reported ones. */
TEST(a_window_may_begin_within_the_moment_of_the_place)
{
    struct stage *s = *state;

    offer_list(s, LIST("", CHANGE("z", "01") CHANGE("a", "02") CHANGE("b", "02")
                               CHANGE("c", "02")));
    tells(s, AT("02"), "a b c ", AT_N("02", "3"));
    put(s, "/c.xml",
        LIST("", CHANGE("b", "02") CHANGE("c", "02") CHANGE("d", "02")
                     CHANGE("e", "02")));
    tells_on(s, "d e ");
    tells_on(s, "");
    put(s, "/c.xml", LIST("", CHANGE("e", "02") CHANGE("f", "02")));
    tells_on(s, "f ");

    /* Changes behind the last reported one may be lost. */
    put(s, "/c.xml", LIST("", CHANGE("h", "02") CHANGE("i", "03")));
    assert_int_equal(read_on(s), STATUS_GONE);
    assert_string_equal(s->names, "");
    assert_non_null(strstr(s->why.text, "/c.xml no longer has"));
}

/* A list that has each resource once, with its last change. */
TEST(a_list_written_anew_loses_nothing_of_a_moment)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"),
                       CHANGE("a", "02") CHANGE("b", "02") CHANGE("c", "02")));
    tells(s, AT("01"), "a b c ", AT_N("02", "3"));
    put(s, "/c.xml",
        LIST(FROM("01"),
             CHANGE("c", "02") CHANGE("d", "02") CHANGE("a", "03")));
    tells_on(s, "d a ");

    /* Without the last reported entry nobody knows which are new: the history
     * reports them again rather than not at all. */
    put(s, "/c.xml",
        LIST(FROM("01"),
             CHANGE("c", "02") CHANGE("e", "03") CHANGE("a", "04")));
    tells_on(s, "e a ");
}

/* a list from new to old keeps that order, however few entries
 * remain. */
TEST(a_list_from_new_to_old_has_one_order)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"),
                       CHANGE("c", "04") CHANGE("b", "04") CHANGE("a", "02")));
    tells(s, AT("01"), "a c b ", AT_N("04", "2"));
    tells_on(s, "");
    tells(s, AT_N("04", "1"), "b ", NULL);
    tells(s, AT("01"), "a c b ", NULL);
    put(s, "/c.xml",
        LIST(FROM("01"), CHANGE("d", "04") CHANGE("c", "04") CHANGE("b", "04")
                             CHANGE("a", "02")));
    tells_on(s, "d ");
}

#define CHANGE_OF(name, day, length)                                     \
    "<url><loc>http://r.example/" name "</loc><rs:md change=\"updated\"" \
    " datetime=\"" DAY(day) "\" length=\"" length "\"/></url>"

/* Two lists share a moment: an equal entry in both is one entry, a similar one
 * is another. */
TEST(the_same_entry_in_two_lists_is_told_once)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), PART_1 PART("/2.xml", FROM("03"))));
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03"),
             CHANGE_OF("a", "03", "1") CHANGE("b", "03")));
    put(s, "/2.xml",
        LIST(FROM("03"),
             CHANGE_OF("a", "03", "2") CHANGE("b", "03") CHANGE("c", "03")));
    tells(s, AT("01"), "a b a c ", AT_N("03", "4"));
    tells_on(s, "");
    put(s, "/2.xml",
        LIST(FROM("03"), CHANGE_OF("a", "03", "2") CHANGE("b", "03")
                             CHANGE("c", "03") CHANGE("d", "03")));
    tells_on(s, "d ");
}

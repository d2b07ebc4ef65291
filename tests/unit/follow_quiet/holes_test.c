/*
 * holes_test.c - what is missing before a message: from the change memory, else
 * from Change Lists, else from nowhere.
 */
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

/* Up to entry 1, then a message from 5 on: 2 to 4 are missing. */
static void
open_hole(struct stage *s)
{
    start(s, "0");
    quiet_say(json(s, 0, 1));
    quiet_say(json(s, 4, 6));
    assert_true(quiet_is_asking_page());
    assert_string_equal(quiet_page_url(), SET_URL "/memory?after=" EPOCH "-1");
}

static void
tell_lists(uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++)
        assert_true(quiet_entry("http://example.com/l", seq_place(seq)));
}

FIXTURE(set_stage, clear_stage);

/* page by page, before what follows it; and the connection goes on. */
TEST(is_filled_from_the_change_memory)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(200, json(s, 1, 3));
    assert_told(s, "1 2 3 ");
    assert_string_equal(quiet_page_url(), SET_URL "/memory?after=" EPOCH "-3");
    quiet_page(200, json(s, 3, 5));
    assert_told(s, "1 2 3 4 5 6 ");
    assert_false(quiet_is_held());
    quiet_say(json(s, 6, 7));
    assert_told(s, "1 2 3 4 5 6 7 ");
    assert_int_equal(quiet_n_lives(), 1);
}

/* whoever names a silence does not wait longer for what he asks for. */
TEST(the_silence_that_was_named_holds_for_what_is_asked_for)
{
    static const struct {
        unsigned idle_ms, silence_s;
    } rows[] = {{0, 0}, {1, 1}, {2000, 2}, {2001, 3}, {UINT32_MAX, 4294968}};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        s->options.idle_ms = rows[i].idle_ms;
        s->options.after = "0";
        assert_int_equal(td_follower_open(s->client, SET_URL, &s->options,
                                          on_message, s, &s->follower),
                         TD_OK);
        quiet_await(quiet_is_seeking, "a discovery");
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        leave(s);
        open_hole(s);
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        quiet_page(404, SLICE(""));
        quiet_lists_after();
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        leave(s);
    }
}

/* a change memory that is not there, is away, or says what cannot be
 * right: the lists know. */
TEST(is_filled_from_lists_where_there_is_no_memory)
{
    struct stage *s = *state;
    static const unsigned statuses[] = {404, 503, 0, 200};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        s->told[0] = '\0';
        open_hole(s);
        quiet_page(statuses[i], SLICE("what is that"));
        assert_int_equal(quiet_lists_after()->at.seq, 1);
        tell_lists(1, 5);
        quiet_lists_end(TD_OK, "", seq_place(5));
        assert_told(s, "1 2 3 4 5 6 ");
        quiet_say(json(s, 6, 7));
        assert_string_equal(s->position, EPOCH "-7");
        assert_int_equal(s->troubles, 0);
        leave(s);
        quiet_turn();
    }
}

/* A page without what was asked for is no reason to jump over it. */
TEST(a_page_that_leads_nowhere_is_no_help)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(200, json(s, 1, 1));
    assert_true(quiet_is_asking_lists());
    tell_lists(2, 4);
    quiet_lists_end(TD_OK, "", seq_place(4));
    assert_told(s, "1 2 3 4 5 6 ");
}

TEST(lists_fill_it_where_no_memory_is_offered)
{
    struct stage *s = *state;

    s->offer.memory = NULL;
    start(s, "0");
    quiet_say(json(s, 0, 1));
    quiet_say(json(s, 2, 3));
    tell_lists(2, 2);
    quiet_lists_end(TD_OK, "", seq_place(2));
    assert_told(s, "1 2 3 ");

    s->offer.change_list = NULL;
    leave(s);
    start(s, "0");
    quiet_say(json(s, 0, 1));
    quiet_say(json(s, 2, 3));
    assert_ended(s, TD_BROKEN, "a gap after 1 that cannot be filled");
}

/* Both are away: it is a lost connection, not a lost change. */
TEST(is_left_open_for_the_next_connection)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(503, SLICE(""));
    tell_lists(2, 2);
    quiet_lists_end(TD_REFUSED, "403: no", NULL);
    assert_int_equal(s->troubles, 1);
    assert_string_equal(s->trouble, "503: no");
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-2");
    quiet_say(json(s, 2, 6));
    assert_told(s, "1 2 3 4 5 6 ");
}

/* What stands between may have kept an older list. */
TEST(lists_that_end_too_early_are_asked_again)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(404, SLICE(""));
    tell_lists(2, 3);
    quiet_lists_end(TD_OK, "", seq_place(3));
    assert_int_equal(s->troubles, 1);
    assert_non_null(strstr(s->trouble, "a gap after 3"));
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-3");
    quiet_say(json(s, 3, 6));
    assert_told(s, "1 2 3 4 5 6 ");
}

/* Even before the hole: a message has shown that the log goes on. */
TEST(lists_that_end_before_the_hole_are_asked_again)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_GONE;
    start(s, EPOCH "-3");
    quiet_say(json(s, 4, 6));
    quiet_page(404, SLICE(""));
    quiet_lists_end(TD_GONE, "ahead of the log", seq_place(2));
    assert_int_equal(s->troubles, 1);
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-3");
    quiet_say(json(s, 3, 6));
    assert_told(s, "4 5 6 ");
}

/* a hole in the lists is not jumped over either. */
TEST(a_hole_in_the_lists_is_told)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(404, SLICE(""));
    tell_lists(2, 2);
    assert_false(quiet_entry("http://example.com/l", seq_place(4)));
    assert_ended(s, TD_BROKEN, "a gap before 4");
    assert_told(s, "1 ");
}

/* what neither has any more is gone. */
TEST(what_neither_has_is_gone)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(410, SLICE(""));
    assert_ended(s, TD_GONE, "410");
    leave(s);

    s->ends = 0;
    open_hole(s);
    quiet_page(404, SLICE(""));
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    assert_ended(s, TD_GONE, "the lists begin later");
}

/* A connection that ends meanwhile: what it said still counts, then the end
 * does. */
TEST(outlasts_its_connection)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_end(LIVE_CLOSED, 1001, "restart");
    quiet_turn();
    assert_int_equal(s->troubles, 0);
    quiet_page(200, json(s, 1, 4));
    assert_told(s, "1 2 3 4 5 6 ");
    assert_int_equal(s->troubles, 1);
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-6");
}

/* with filters, lists are filtered here; what is covered counts. */
TEST(lists_are_filtered_as_messages_are)
{
    static const struct td_filter filters[] = {
        {"prefix", "http://example.com/a"}};
    struct stage *s = *state;

    s->options.filters = filters;
    s->options.n_filters = 1;
    s->offer.memory = NULL;
    start(s, EPOCH "-1");
    quiet_say(history_json_every(&s->history, 4, 4, 9));
    quiet_entry("http://example.com/b", seq_place(2));
    quiet_entry("http://example.com/a1", seq_place(3));
    quiet_entry("http://example.com/b", seq_place(4));
    quiet_lists_end(TD_OK, "", seq_place(4));
    assert_told(s, "3 h ");
    assert_string_equal(s->position, EPOCH "-4");
}

/* It may be closed, stopped and paused in the middle of it. */
TEST(may_be_left_in_the_middle)
{
    struct stage *s = *state;

    s->closes_at = "3 ";
    open_hole(s);
    quiet_page(200, json(s, 1, 3));
    assert_null(s->follower);
    quiet_turn();

    s->told[0] = '\0';
    s->closes_at = "6 ";
    open_hole(s);
    quiet_page(200, json(s, 1, 4));
    assert_null(s->follower);
    quiet_turn();

    s->told[0] = '\0';
    s->closes_at = "4 ";
    open_hole(s);
    quiet_page(404, SLICE(""));
    tell_lists(2, 4);
    quiet_lists_end(TD_OK, "", seq_place(4));
    assert_null(s->follower);
    quiet_turn();
    assert_int_equal(s->ends, 0);
    s->closes_at = NULL;

    s->told[0] = '\0';
    s->stops_at = "3 ";
    open_hole(s);
    quiet_page(200, json(s, 1, 3));
    assert_ended(s, TD_STOPPED, "");
}

TEST(a_pause_waits_with_the_lists)
{
    struct stage *s = *state;

    open_hole(s);
    quiet_page(404, SLICE(""));
    tell_lists(2, 2);
    td_follower_pause(s->follower);
    assert_true(quiet_is_held());
    td_follower_resume(s->follower);
    quiet_turn();
    assert_false(quiet_is_held());
    s->pauses_at = "4 ";
    tell_lists(3, 4);
    quiet_lists_end(TD_OK, "", seq_place(4));
    quiet_turn();
    assert_told(s, "1 2 3 4 ");
    td_follower_resume(s->follower);
    quiet_turn();
    assert_told(s, "1 2 3 4 5 6 ");
    assert_false(quiet_is_held());
}

/*
 * poll_test.c - sources that push nothing: their Change Lists, again and again.
 */
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static int
set_lists(void **state)
{
    struct stage *s;

    set_stage(state);
    s = *state;
    s->offer =
        (struct offered){.url = LENT("http://127.0.0.1:1/caps.xml"),
                         .change_list = LENT("http://127.0.0.1:1/list.xml")};
    s->options.poll_ms = 1;
    return 0;
}

FIXTURE(set_lists, clear_stage);

/* For packages of Change Dumps, too. */
TEST(the_scratch_directory_is_for_lists_as_well)
{
    struct stage *s = *state;

    s->options.scratch = "/tmp/nowhere";
    start(s, "@1970-01-01T00:00:05.000000Z+1");
    assert_string_equal(quiet_lists_scratch(), "/tmp/nowhere");
}

/* The new changes, then a heartbeat at the reached place; again and again.
 */
TEST(asks_again_after_the_place_it_reached)
{
    struct stage *s = *state;

    play(s, "start @1970-01-01T00:00:05.000000Z+1; after 5+1;"
            "entry a 5+2; entry b 6+1; done 8+0; told a b h");
    assert_string_equal(s->last_text,
                        "{\"loc\":\"http://example.com/b\","
                        "\"change\":\"created\","
                        "\"datetime\":\"1970-01-01T00:00:06.000000Z\"}");
    play(s, "position @1970-01-01T00:00:08.000000Z+0; after 8+0;"
            "caught_up @1970-01-01T00:00:08.000000Z+0; done 8+0; told a b h h");
}

/* Many are handed over some at a time, each with its place. */
TEST(many_entries_are_handed_over_some_at_a_time)
{
    struct stage *s = *state;

    start(s, "0");
    for (int i = 1; i <= 1000; i++) {
        s->told[0] = '\0';
        assert_true(quiet_entry("http://example.com/a", time_place(i, 1)));
        if (i == 256)
            assert_string_equal(s->position, "@1970-01-01T00:04:16.000000Z+1");
    }
    play(s, "done 1000+1; position @1970-01-01T00:16:40.000000Z+1");
}

TEST(begins_where_it_is_told)
{
    struct stage *s = *state;
    const struct source_position *after;

    start(s, NULL);
    after = quiet_lists_after();
    assert_true(after->is_time);
    assert_true(after->time_us > INT64_C(1700000000000000)); /* now */

    s->offer.date = LENT("Sun, 06 Nov 1994 08:49:37 GMT"); /* its clock */
    play(s, "leave; start now; after 784111777+0; leave");
    s->offer.date = NULL;
    play(s, "start 0; after #0; leave");

    s->options.since = "1970-01-01T00:00:09Z";
    start(s, NULL);
    assert_int_equal(quiet_lists_after()->time_us, 9000001);
    assert_int_equal(quiet_lists_after()->n_at, 0);
}

/* A document that is unavailable for now: the follower reports that and the
 * changes before it; the lists go on. */
TEST(lists_that_wait_hold_nothing_back)
{
    struct stage *s = *state;
    unsigned ms = 300;

    play(s, "start 0; entry a 5+1; told");
    assert_true(quiet_lists_wait("503: busy", &ms));
    assert_int_equal(ms, 300);
    play(s, "told a; trouble 503: busy;"
            "position @1970-01-01T00:00:05.000000Z+1; is lists;"
            "entry b 6+1; done 6+1; told a b h");
}

/* Changes that were handed over before the lists broke count. */
TEST(ends_where_lists_are_broken)
{
    play(*state, "start 0; entry a 5+1; lists broken - what is that; told a;"
                 "ended broken what is that");
}

TEST(may_be_closed_while_lists_wait)
{
    struct stage *s = *state;
    unsigned ms = 300;

    play(s, "start 0; entry a 5+1; closes_at a");
    assert_false(quiet_lists_wait("503: busy", &ms));
    play(s, "not lists; troubles 0; start 0; await lists");
    s->closes_on_trouble = true;
    assert_false(quiet_lists_wait("503: busy", &ms));
    play(s, "not lists");
}

/* A follower that is to catch up does not wait for ever. */
TEST(lists_that_wait_are_left_by_whom_is_to_catch_up)
{
    struct stage *s = *state;
    unsigned ms = 50000;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 40000;
    play(s, "start 0; await lists");
    assert_true(quiet_lists_wait("503: busy", &ms));
    assert_true(ms <= 40000); /* a last attempt */

    s->options.patience_ms = 1;
    play(s, "leave; start 0; await lists; wait 40000 503: busy");
    clock_pass_us(1000);
    assert_false(quiet_lists_wait("503: busy", &ms));
    play(s, "ended unreachable 503: busy");
}

/* lists that do not reach back. */
TEST(a_window_that_slid_on_is_gone)
{
    struct stage *s = *state;

#define SLID                                \
    "start @1970-01-01T00:00:05.000000Z+1;" \
    "lists gone - the lists begin later;"
    play(s, SLID "ended gone the lists begin later; anew");

    s->options.baseline = TD_BASELINE_GONE;
    play(s, SLID);
    s->offer.resource_list = LENT("http://127.0.0.1:1/resources.xml");
    play(s, "found; resource r; baseline 9+0; after 9+0; entry c 9+1;"
            "done 9+1; told B r:r E c h");
}

/* a list that ends before the place may be an old one from a cache; one
 * that stays so belongs to a log that has lost its end. */
TEST(lists_that_end_before_the_place_are_asked_again)
{
    struct stage *s = *state;

#define AHEAD "lists gone #3 ahead of the log;"
    play(s, "start E-5;" AHEAD "troubles 1; trouble ahead of the log;" AHEAD
            "troubles 2; trouble ahead of the log; after #5;"
            "entry 6 #6; done #6; position E-6;" AHEAD AHEAD "is going;" AHEAD
            "ended gone ahead of the log");

    s->options.poll_ms = 3600000; /* not for a list that may be old */
    play(s, "leave; start E-5;" AHEAD);
    assert_int_equal(s->pause_ms, 60000);
}

/* A follower that is to catch up reports that within its patience. */
TEST(a_log_that_lost_its_end_is_told_to_who_catches_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 6000;
    s->options.poll_ms = 60000;
    play(s, "start E-5;" AHEAD AHEAD AHEAD "ended gone ahead of the log");
}

TEST(ends_with_the_lists_when_it_is_to_catch_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    play(s, "start 0; entry a 5+1; done 5+1; ended ok; told a h");
}

/* Lists of Tidings have seqs, which are what counts. */
TEST(lists_with_seqs_are_followed_by_seq, set_stage, clear_stage)
{
    struct stage *s = *state;

    s->options.transports = TD_POLL;
    s->options.poll_ms = 1;
    play(s, "start E-4; entry a #4; entry a #5; done #5; told 5 h;"
            "position E-5; after #5; noentry a #7;"
            "ended broken a gap before 7");
}

TEST(a_pause_holds_lists_back)
{
    struct stage *s = *state;

    play(s, "start 0; await lists; pause; is held; resume; pauses_at b; turn;"
            "entry a 5+1; entry b 5+2; done 5+2; turn; told a b; not lists;"
            "resume; turn; told a b h");

    /* Partly handed over, and over while it is paused. */
    play(s, "pauses_at; entry c 6+1; pause");
    quiet_lists_break(STATUS_MALFORMED, "what is that");
    play(s, "turn; told a b h; resume; turn; told a b h c;"
            "ended broken what is that");
}

/* where it goes on the source says. */
TEST(a_source_whose_list_is_closed_is_asked_anew)
{
    play(*state, "start 0; entry a 5+1");
    quiet_lists_close(time_place(6, 0));
    play(*state, "told a h; await seeking; found; after 6+0");
}

TEST(a_list_that_is_not_there_any_more_may_have_moved)
{
    play(*state, "start 0; done 6+0; listless 404; await seeking; found;"
                 "listless 404; ended refused 404; anew;"
                 "start 0; done 6+0; listless 410; await seeking; found;"
                 "listless 410; ended refused 410");
}

TEST(trouble_may_pause_it)
{
    struct stage *s = *state;

    play(s, "start 0; await lists");
    s->pauses_on_trouble = true;
    play(s, "wait 300 503: busy; is held; resume; turn; not held");
}

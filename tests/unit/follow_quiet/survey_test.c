/*
 * survey_test.c - sources with only a list of their resources, read again and
 * again.
 */
#include <string.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static int
set_listed(void **state)
{
    struct stage *s;

    set_stage(state);
    s = *state;
    s->offer =
        (struct offered){.url = LENT("http://127.0.0.1:1/sitemap.xml"),
                         .resource_list = LENT("http://127.0.0.1:1/list.xml")};
    s->options.poll_ms = 1;
    return 0;
}

FIXTURE(set_listed, clear_stage);

static uint64_t progress; /* the last number that the follower reported */

/* The first list brings no changes; the next ones bring their differences. */
TEST(the_differences_of_lists_are_told)
{
    struct stage *s = *state;

    play(s, "start now; await rebasing; resource a; resource b; baseline -;"
            "told h; await rebasing; resource b; resource c; baseline -;"
            "turn; turn; told h 1 2 h");
    assert_non_null(strstr(s->last_text, "\"change\":\"deleted\""));
    assert_non_null(strstr(s->last_text, "\"seq\":2}"));
    play(s,
         "await rebasing; resource b; resource c; baseline -; told h 1 2 h h;"
         "leave");
}

/* A source that has a stream, too, has a history. The list is no part of it:
 * nothing is polled where the stream does not come about. */
TEST(a_list_does_not_stand_in_for_a_stream)
{
    struct stage *s = *state;

    s->offer.stream = LENT("http://127.0.0.1:1/stream");
    play(s, "start 0; say 0-1; unfit no upgrade; await seeking; not lists;"
            "found; by websocket; say 1-2; told 1 2; leave; anew");
    s->options.transports = TD_POLL;
    play(s, "start 0; ended refused names no Resource List");
}

/* "0": each resource is created. */
TEST(from_the_beginning_all_of_the_first_list_is_told)
{
    struct stage *s = *state;

    play(s, "start 0; await rebasing; resource a; resource b; baseline -;"
            "turn; turn; told 1 2 h; leave");
}

/* a position without its list is gone; a baseline is where it goes on,
 * and is not read twice. */
TEST(a_position_of_another_listing_is_gone)
{
    struct stage *s = *state;

    play(s,
         "start E-4; ended gone is not kept; leave; anew;"
         "start @1970-01-01T00:00:05.000000Z+1; ended gone the changes after;"
         "leave; anew");
    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start E-4; found; await rebasing; resource a; baseline -;"
            "turn; told B r:a E h; await rebasing; baseline -; turn; turn;"
            "told B r:a E h 1 h; leave");
}

/* A list that breaks off is read again from its beginning. */
TEST(a_list_that_breaks_off_is_read_again)
{
    struct stage *s = *state;

    play(s, "start now; await rebasing; resource a; resource b; baseline -;"
            "told h; await rebasing; resource a; nobaseline broken cut;"
            "troubled cut; await seeking; found; await rebasing;"
            "resource a; resource b; baseline -; told h h; leave");
}

/* A list that breaks off ends the follower if it is the first one, or if the
 * follower ends when it has caught up. */
TEST(a_first_list_that_breaks_off_ends_it)
{
    struct stage *s = *state;

    play(s, "start now; await rebasing; resource a; nobaseline broken cut;"
            "ended broken cut; leave; anew");
    s->options.until_caught_up = 1;
    play(s, "start 0; await rebasing; resource a; baseline -; turn; turn;"
            "told 1 h; ended ok");
}

static void
on_progress(uint64_t n_resources, void *user)
{
    (void)user;
    progress = n_resources;
}

/* How far it is in a long list, at most four times a second. */
TEST(progress_in_a_list_is_told)
{
    struct stage *s = *state;

    s->options.on_progress = on_progress;
    play(s, "start 0; await rebasing; resource a; resource b");
    assert_int_equal(progress, 0);
    clock_pass_us(250000);
    play(s, "resource c; resource d");
    assert_int_equal(progress, 3);
    play(s, "leave");
}

/* After a pause anywhere, it goes on with the next resource. */
TEST(a_pause_holds_the_list_and_what_it_differs_in)
{
    struct stage *s = *state;

    play(s, "start 0; await rebasing; resource a; pause; is held; resume;"
            "resource b; pauses_at 2; baseline -; turn; turn; told 1 2;"
            "resume; turn; turn; told 1 2 h; leave");
}

TEST(it_may_be_closed_where_differences_are_told)
{
    struct stage *s = *state;

    play(s, "closes_at 1; start 0; await rebasing; resource a; baseline -;"
            "turn; told 1");
}

TEST(it_may_be_stopped_where_differences_are_told)
{
    struct stage *s = *state;

    play(s, "stops_at 1; start 0; await rebasing; resource a; baseline -;"
            "turn; ended stopped");
}

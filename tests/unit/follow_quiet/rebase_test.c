/*
 * rebase_test.c - a history that does not reach back: baselines, and their
 * reports.
 */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static int
set_list(void **state)
{
    struct stage *s;

    set_stage(state);
    s = *state;
    s->offer.resource_list = LENT(SET_URL "/resources");
    return 0;
}

FIXTURE(set_list, clear_stage);

/* begin, all resources, end; and then the changes since, in order. */
TEST(a_baseline_is_taken_where_the_position_is_gone)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start O-4; gone earliest E-2; told; page 410; found;"
            "resource a; resource b; baseline #3; told B r:a r:b E;"
            "reason 4410 earliest E-2; position E-3; url /stream?after=E-3");
    assert_string_equal(s->last_text, "{\"loc\":\"http://example.com/b\"}");
    play(s, "say 3-4; told B r:a r:b E 4");
}

/* another history under the same name. */
TEST(no_baseline_is_taken_where_the_history_is_another_one)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, message(s, 2, 2));
    char *digit = strstr(spoilt, "sha-256:") + strlen("sha-256:");

    *digit = *digit == '0' ? '1' : '0';
    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start 0; say 0-2");
    quiet_say(slice_of(spoilt));
    play(s, "ended rewound another history of; told 1 2");
}

TEST(a_baseline_is_taken_where_the_log_was_made_anew)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start E-4; say o4-5; found; baseline #2; told B E; "
            "reason " OTHER_EPOCH);
}

TEST(none_is_taken_where_none_is_wanted)
{
    struct stage *s = *state;

    s->options.baseline = TD_NO_BASELINE;
    play(s, "start E-4; say o4-5; ended gone " OTHER_EPOCH "; told");
}

/* A baseline replaces a hole that is gone, and the follower drops the waiting
 * message. */
TEST(a_hole_that_is_gone_is_covered_by_a_baseline)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start 0; say 0-1; say 4-5; page 410; found;"
            "resource a; baseline #6; told 1 B r:a E;"
            "say 6-7; told 1 B r:a E 7");
}

/* If the source is away in the middle of it, the baseline begins again. */
TEST(is_begun_again_when_it_breaks)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now");
    for (int i = 0; i < 300; i++)
        assert_true(quiet_resource("http://example.com/a", NULL));
    assert_memory_equal(s->told, "B r:a r:a ", 10);
    play(s, "position -; nobaseline unreachable the connection broke;"
            "troubles 1");
    s->told[0] = '\0';
    play(s, "found; resource b; baseline #3; told B r:b E");
}

/* Nothing is void because the source has no list. */
TEST(is_not_begun_where_there_is_no_list)
{
    struct stage *s = *state;
    char *list = s->offer.resource_list;

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start O-4; gone gone; page 410");
    s->offer.resource_list = NULL;
    play(s, "found; ended gone no list of its resources; anew");

    s->offer.resource_list = list;
    play(s, "start O-4; gone gone; page 410; found; nobaseline refused 403: no;"
            "ended refused 403: no; told");
}

/* A set with its whole history needs none. */
TEST(the_whole_history_is_a_baseline)
{
    struct stage *s = *state;

    s->offer.earliest = LENT(EPOCH "-0");
    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now; url /stream?after=E-0; say 0-1; told 1; anew");

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start O-4; gone gone; page 410");
    s->offer.resource_list = NULL;
    play(s, "found; say 0-1; told B E 1");
}

/* The changes after a list that is too old are gone: the follower cannot
 * continue from it, unless the source has another list by now. */
TEST(a_baseline_that_is_gone_itself_is_told)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now; baseline #3; gone gone; page 410; found;"
            "troubled a baseline was just taken; await rebasing;"
            "baseline #3; gone gone; page 410; ended gone so for the baseline; "
            "anew");
    play(s,
         "start now; baseline #3; gone gone; page 410; found; await rebasing;"
         "baseline #5; say 5-6; told B E B E 6");
}

/* A list without a time, of a source where nothing changed for long, and that
 * keeps few changes: the follower continues once from the age that the server
 * states, and reports that. */
TEST(a_baseline_of_unknown_time_is_followed_from_the_best_guess)
{
    const struct source_position proven = *time_place(5, 0);
    const struct source_position guess = *time_place(900, 0);
    struct stage *s = *state;

    s->offer = (struct offered){.url = LENT(SET_URL),
                                .change_list = LENT(SET_URL "/list"),
                                .resource_list = LENT(SET_URL "/resources")};
    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now");
    quiet_baseline_guess(&proven, &guess);
    play(s, "after 5+0; lists gone - the lists begin later; after 900+0;"
            "troubles 1; troubled assumes 1970-01-01T00:15:00Z");
    assert_non_null(strstr(s->trouble, "the lists begin later; the baseline "));
    play(s, "entry c 901+1; done 901+1; told B E c h;"
            "position @1970-01-01T00:15:01.000000Z+1; anew; start now");
    quiet_baseline_guess(&proven, &guess);
    play(s, "lists gone - the lists begin later;"
            "lists gone - the lists begin later;"
            "after far; entry c 990+1; done 990+1; told B E c ? h;"
            "doubted is of 1970-01-01T00:15:00Z: what changed between");
}

/* A source that changes its mind: one baseline a minute, and not in silence. */
TEST(baselines_do_not_follow_each_other_at_once)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now; baseline #3; say 3-4; gone gone; page 410; found; turn;"
            "not rebasing; troubles 1;"
            "troubled a baseline was just taken; told B E 4");
}

TEST(a_position_needs_no_baseline_first)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start E-4; await live; not rebasing; leave");

    s->options.since = "2026-01-01T00:00:00Z";
    play(s, "start now; url /stream?since=2026-01-01T00:00:00Z");
}

/* A file is handed over in the call that brings it, by its path; kinds of
 * change do not concern resources. */
TEST(files_are_handed_over_at_once)
{
    static const struct td_filter filters[] = {
        {"change", "deleted"}, {"prefix", "http://example.com/a"}};
    struct stage *s = *state;

    s->options.filters = filters;
    s->options.n_filters = 2;
    s->options.scratch = "/tmp";
    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "start now; resource a; resource b 7; told B r:a;"
            "resource a2 8; told B r:a r:a2+");
    assert_string_equal(s->last_file, "/tmp/8");
    play(s, "baseline 7+2; position @1970-01-01T00:00:07.000000Z+2");
}

/* Each step of it may pause, and close. */
TEST(a_pause_stops_it_at_each_step)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    play(s, "pauses_at B; start now; resource a 7; turn; told B; is held;"
            "pauses_at r:b; resume; turn; resource b; baseline #3; turn;"
            "told B r:a r:b;"
            "pauses_at E; resume; turn; told B r:a r:b E; not live;"
            "resume; say 3-4; told B r:a r:b E 4");
}

TEST(may_be_closed_at_each_step)
{
    static const char *const steps[] = {"closes_at B", "closes_at r:b",
                                        "closes_at E"};
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_FIRST;
    for (size_t i = 0; i < 3; i++) {
        play(s, steps[i]);
        play(s, "start now");
        if (quiet_resource("http://example.com/b", NULL))
            play(s, "baseline #3");
        assert_null(s->follower);
        play(s, "turn; is going; anew");
    }
}

/* until_caught_up: the head as known at the end of the baseline. */
TEST(catches_up_behind_its_baseline)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.baseline = TD_BASELINE_FIRST;
    s->offer.position = LENT(EPOCH "-5");
    play(s, "start now; baseline #3; say 3-5; ended ok; told B E 4 5");
}

/* A limit below a second is one, and not none. */
TEST(a_short_patience_is_one_of_a_second)
{
    static const unsigned ms[] = {500, 1000, 1001}, seconds[] = {1, 1, 2};
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.baseline = TD_BASELINE_FIRST;
    for (size_t i = 0; i < 3; i++) {
        s->options.patience_ms = ms[i];
        start(s, NULL);
        assert_int_equal(quiet_baseline_patience(), seconds[i]);
        leave(s);
    }
}

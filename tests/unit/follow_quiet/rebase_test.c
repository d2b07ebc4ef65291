/*
 * rebase_test.c - where the history does not reach back: baselines, and what is
 * told of them.
 */
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static void
start_with(struct stage *s, enum td_baseline baseline, const char *after)
{
    s->options.baseline = baseline;
    s->offer.resource_list = LENT(SET_URL "/resources");
    start(s, after);
}

FIXTURE(set_stage, clear_stage);

/* begin, what there is, end; and then what happened since, in order. */
TEST(a_baseline_is_taken_where_the_position_is_gone)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_GONE, OTHER_EPOCH "-4");
    quiet_end(LIVE_CLOSED, 4410, "earliest " EPOCH "-2");
    assert_told(s, "");
    quiet_found(&s->offer);
    assert_true(quiet_resource("http://example.com/a", NULL));
    assert_true(quiet_resource("http://example.com/b", NULL));
    quiet_baseline_end(TD_OK, "", seq_place(3));
    assert_told(s, "B r:a r:b E ");
    assert_non_null(strstr(s->reason, "4410 earliest " EPOCH "-2"));
    assert_string_equal(s->last_text, "{\"loc\":\"http://example.com/b\"}");
    assert_string_equal(s->position, EPOCH "-3");
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-3");
    quiet_say(json(s, 3, 4));
    assert_told(s, "B r:a r:b E 4 ");
}

/* another history under the same name. */
TEST(a_baseline_is_taken_where_the_history_is_another_one)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, json(s, 2, 2));
    char *digit = strstr(spoilt, "sha-256:") + strlen("sha-256:");

    *digit = *digit == '0' ? '1' : '0';
    start_with(s, TD_BASELINE_GONE, "0");
    quiet_say(json(s, 0, 2));
    quiet_say(slice_of(spoilt));
    quiet_found(&s->offer);
    quiet_baseline_end(TD_OK, "", seq_place(2));
    assert_told(s, "1 2 B E ");
    assert_non_null(strstr(s->reason, "digest at 2"));
}

TEST(a_baseline_is_taken_where_the_log_was_made_anew)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_GONE, EPOCH "-4");
    quiet_say(history_json(&s->other, 4, 5));
    quiet_found(&s->offer);
    quiet_baseline_end(TD_OK, "", seq_place(2));
    assert_told(s, "B E ");
    assert_non_null(strstr(s->reason, OTHER_EPOCH));
}

TEST(none_is_taken_where_none_is_wanted)
{
    struct stage *s = *state;

    start_with(s, TD_NO_BASELINE, EPOCH "-4");
    quiet_say(history_json(&s->other, 4, 5));
    assert_ended(s, TD_GONE, OTHER_EPOCH);
    assert_told(s, "");
}

/* A hole that is gone is filled by a baseline, and the message that waited is
 * not handed over after it. */
TEST(a_hole_that_is_gone_is_covered_by_a_baseline)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_GONE, "0");
    quiet_say(json(s, 0, 1));
    quiet_say(json(s, 4, 5));
    quiet_page(410, SLICE(""));
    quiet_found(&s->offer);
    quiet_resource("http://example.com/a", NULL);
    quiet_baseline_end(TD_OK, "", seq_place(6));
    assert_told(s, "1 B r:a E ");
    quiet_say(json(s, 6, 7));
    assert_told(s, "1 B r:a E 7 ");
}

/* A source that is away in the middle of it: it is begun again. */
TEST(is_begun_again_when_it_breaks)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_FIRST, NULL);
    for (int i = 0; i < 300; i++)
        assert_true(quiet_resource("http://example.com/a", NULL));
    assert_memory_equal(s->told, "B r:a r:a ", 10);
    assert_string_equal(s->position, "-");
    quiet_baseline_end(TD_UNREACHABLE, "the connection broke", NULL);
    assert_int_equal(s->troubles, 1);
    s->told[0] = '\0';
    quiet_found(&s->offer);
    quiet_resource("http://example.com/b", NULL);
    quiet_baseline_end(TD_OK, "", seq_place(3));
    assert_told(s, "B r:b E ");
}

/* Nothing is void because the source has no list. */
TEST(is_not_begun_where_there_is_no_list)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_GONE, OTHER_EPOCH "-4");
    quiet_end(LIVE_CLOSED, 4410, "gone");
    s->offer.resource_list = NULL;
    quiet_found(&s->offer);
    assert_ended(s, TD_GONE, "no list of its resources");
    leave(s);

    s->ends = 0;
    start_with(s, TD_BASELINE_GONE, OTHER_EPOCH "-4");
    quiet_end(LIVE_CLOSED, 4410, "gone");
    quiet_found(&s->offer);
    quiet_baseline_end(TD_REFUSED, "403: no", NULL);
    assert_ended(s, TD_REFUSED, "403: no");
    assert_told(s, "");
}

/* A set with its whole history needs none. */
TEST(the_whole_history_is_a_baseline)
{
    struct stage *s = *state;

    s->offer.earliest = LENT(EPOCH "-0");
    start_with(s, TD_BASELINE_FIRST, NULL);
    assert_string_equal(quiet_url(), SET_URL "/stream?after=" EPOCH "-0");
    quiet_say(json(s, 0, 1));
    assert_told(s, "1 ");
    leave(s);

    s->told[0] = '\0';
    s->options.baseline = TD_BASELINE_GONE;
    start(s, OTHER_EPOCH "-4");
    quiet_end(LIVE_CLOSED, 4410, "gone");
    s->offer.resource_list = NULL;
    quiet_found(&s->offer);
    quiet_say(json(s, 0, 1));
    assert_told(s, "B E 1 ");
}

/* A list that stands for what is gone itself cannot be followed on from. */
TEST(a_baseline_that_is_gone_itself_is_told)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_baseline_end(TD_OK, "", seq_place(3));
    quiet_end(LIVE_CLOSED, 4410, "gone");
    assert_ended(s, TD_GONE, "so for the baseline");
}

/* A list that tells no time, of a source where nothing changed for long, and
 * that keeps few changes: it is followed from what the server says of its age,
 * once; and whoever follows is told. */
TEST(a_baseline_of_unknown_time_is_followed_from_the_best_guess)
{
    const struct place proven = *time_place(5, 0);
    const struct place guess = *time_place(900, 0);
    struct stage *s = *state;

    s->offer = (struct offered){.url = LENT(SET_URL),
                                .change_list = LENT(SET_URL "/list")};
    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_baseline_guess(&proven, &guess);
    assert_int_equal(quiet_lists_after()->time_us, 5000000);
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    assert_int_equal(quiet_lists_after()->time_us, 900000000);
    assert_int_equal(s->troubles, 1);
    assert_non_null(strstr(s->trouble, "the lists begin later; the baseline "));
    assert_non_null(strstr(s->trouble, "of 1970-01-01T00:15:00Z"));
    quiet_entry("http://example.com/c", time_place(901, 1));
    quiet_lists_end(TD_OK, "", time_place(901, 1));
    assert_told(s, "B E c h ");
    assert_string_equal(s->position, "@1970-01-01T00:15:01.000000Z+1");
    leave(s);

    s->told[0] = '\0';
    start(s, NULL);
    quiet_baseline_guess(&proven, &guess);
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    assert_ended(s, TD_GONE, "so for the baseline");
    assert_told(s, "B E ");
}

/* A source that changes its mind: one baseline a minute, and not in silence. */
TEST(baselines_do_not_follow_each_other_at_once)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_baseline_end(TD_OK, "", seq_place(3));
    quiet_say(json(s, 3, 4));
    quiet_end(LIVE_CLOSED, 4410, "gone");
    quiet_found(&s->offer);
    quiet_turn();
    assert_false(quiet_is_rebasing());
    assert_int_equal(s->troubles, 1);
    assert_non_null(strstr(s->trouble, "a baseline was just taken"));
    assert_told(s, "B E 4 ");
}

TEST(a_position_needs_no_baseline_first)
{
    struct stage *s = *state;

    start_with(s, TD_BASELINE_FIRST, EPOCH "-4");
    quiet_await(quiet_is_live, "a connection");
    assert_false(quiet_is_rebasing());
    leave(s);

    s->options.since = "2026-01-01T00:00:00Z";
    start_with(s, TD_BASELINE_FIRST, NULL);
    assert_string_equal(quiet_url(),
                        SET_URL "/stream?since=2026-01-01T00:00:00Z");
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
    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_resource("http://example.com/a", NULL);
    quiet_resource("http://example.com/b", "7");
    assert_told(s, "B r:a ");
    quiet_resource("http://example.com/a2", "8");
    assert_told(s, "B r:a r:a2+ ");
    assert_string_equal(s->last_file, "/tmp/8");
    quiet_baseline_end(TD_OK, "", time_place(7, 2));
    assert_string_equal(s->position, "@1970-01-01T00:00:07.000000Z+2");
}

/* Each step of it may pause, and close. */
TEST(a_pause_stops_it_at_each_step)
{
    struct stage *s = *state;

    s->pauses_at = "B ";
    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_resource("http://example.com/a", "7");
    quiet_turn();
    assert_told(s, "B ");
    assert_true(quiet_is_held());
    s->pauses_at = "r:b ";
    td_follower_resume(s->follower);
    quiet_turn();
    quiet_resource("http://example.com/b", NULL);
    quiet_baseline_end(TD_OK, "", seq_place(3));
    quiet_turn();
    assert_told(s, "B r:a r:b ");
    s->pauses_at = "E ";
    td_follower_resume(s->follower);
    quiet_turn();
    assert_told(s, "B r:a r:b E ");
    assert_false(quiet_is_live());
    td_follower_resume(s->follower);
    quiet_say(json(s, 3, 4));
    assert_told(s, "B r:a r:b E 4 ");
}

TEST(may_be_closed_at_each_step)
{
    struct stage *s = *state;
    static const char *const steps[] = {"B ", "r:b ", "E "};

    for (size_t i = 0; i < 3; i++) {
        s->told[0] = '\0';
        s->closes_at = steps[i];
        start_with(s, TD_BASELINE_FIRST, NULL);
        if (quiet_resource("http://example.com/b", NULL))
            quiet_baseline_end(TD_OK, "", seq_place(3));
        assert_null(s->follower);
        quiet_turn();
    }
    assert_int_equal(s->ends, 0);
}

/* until_caught_up: the head as it is known when the baseline is there. */
TEST(catches_up_behind_its_baseline)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->offer.position = LENT(EPOCH "-5");
    start_with(s, TD_BASELINE_FIRST, NULL);
    quiet_baseline_end(TD_OK, "", seq_place(3));
    quiet_say(json(s, 3, 5));
    assert_ended(s, TD_OK, "");
    assert_told(s, "B E 4 5 ");
}

/* A limit below a second is one, and not none. */
TEST(a_short_patience_is_one_of_a_second)
{
    static const unsigned ms[] = {500, 1000, 1001}, seconds[] = {1, 1, 2};
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    for (size_t i = 0; i < 3; i++) {
        s->options.patience_ms = ms[i];
        start_with(s, TD_BASELINE_FIRST, NULL);
        assert_int_equal(quiet_baseline_patience(), seconds[i]);
        leave(s);
    }
}

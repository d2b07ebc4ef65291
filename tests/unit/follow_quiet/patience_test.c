/*
 * patience_test.c - a follower with until_caught_up ends, whatever happens to
 * its source; another one goes on for ever.
 */
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static void
start_with(struct stage *s, unsigned patience_ms)
{
    s->options.until_caught_up = 1;
    s->options.patience_ms = patience_ms;
    s->offer.position = LENT(EPOCH "-9");
}

/* Lets `act` do something whenever the follower asks for something, ten times a
 * second, until it has ended. */
static void
go_on_until_it_ends(struct stage *s, void (*act)(struct stage *s))
{
    for (quiet_turn(); !s->ends; quiet_turn()) {
        if (quiet_is_seeking() || quiet_is_live() || quiet_is_rebasing())
            act(s);
        clock_pass_us(100000);
    }
}

static void
nobody_is_there(struct stage *s)
{
    (void)s;
    quiet_not_found(STATUS_UNREACHABLE, "connection refused");
}

FIXTURE(set_stage, clear_stage);

/* It is asked several times, a last time when its time is over. */
TEST(a_source_that_is_away_is_given_up)
{
    struct stage *s = *state;

    start_with(s, 3000);
    open_follower(s, "0");
    go_on_until_it_ends(s, nobody_is_there);
    assert_ended(s, STATUS_UNREACHABLE, "connection refused");
    assert_non_null(strstr(s->why, "nothing new came for"));
    assert_in_range(s->troubles, 1, 10);
    assert_told(s, "");
}

TEST(who_does_not_have_to_catch_up_goes_on)
{
    struct stage *s = *state;

    s->options.patience_ms = 1;
    open_follower(s, "0");
    for (int i = 0; i < 4; i++)
        quiet_not_found(STATUS_UNREACHABLE, "connection refused");
    quiet_busy(1);
    assert_int_equal(s->ends, 0);
    assert_int_equal(s->troubles, 5);
}

/* Retry-After: it is not asked sooner, so there is nothing to wait for. */
TEST(a_source_that_wants_to_be_left_alone_is_left)
{
    struct stage *s = *state;

    start_with(s, 0);
    open_follower(s, "0");
    quiet_busy(61);
    assert_ended(s, STATUS_UNREACHABLE, "503: busy");
    assert_non_null(strstr(s->why, "again in 61 s"));
    leave(s);

    s->ends = 0;
    open_follower(s, "0");
    quiet_busy(1);
    quiet_found(&s->offer);
    assert_int_equal(s->ends, 0);
}

static void
there_is_no_word(struct stage *s)
{
    if (quiet_is_seeking())
        quiet_found(&s->offer);
    else
        quiet_end(LIVE_LOST, 0, "no answer for 20.0 s");
}

TEST(a_source_that_stays_silent_is_given_up)
{
    struct stage *s = *state;

    start_with(s, 500);
    open_follower(s, "0");
    go_on_until_it_ends(s, there_is_no_word);
    assert_ended(s, STATUS_UNREACHABLE, "no answer for 20.0 s");
}

static struct slice heartbeat;

/* The source hands out an old answer again and again. */
static void
there_is_nothing_new(struct stage *s)
{
    if (quiet_is_seeking()) {
        quiet_found(&s->offer);
        return;
    }
    quiet_say(heartbeat);
    if (!s->ends && quiet_transport() == TD_LONG_POLL)
        quiet_end(LIVE_AGAIN, 0, "");
}

TEST(what_is_not_new_does_not_keep_it)
{
    static const unsigned transports[] = {TD_LONG_POLL, TD_WEBSOCKET,
                                          TD_LONG_POLL};
    struct stage *s = *state;

    for (int i = 0; i < 3; i++) {
        bool is_repeat = i == 2;

        heartbeat = message(s, is_repeat ? 0 : 3, 3);
        start_with(s, 2000);
        s->options.transports = transports[i];
        s->ends = 0;
        s->told[0] = '\0';
        open_follower(s, "0");
        quiet_found(&s->offer);
        quiet_say(message(s, 0, 3));
        if (transports[i] == TD_LONG_POLL)
            quiet_end(LIVE_AGAIN, 0, "");
        go_on_until_it_ends(s, there_is_nothing_new);
        assert_ended(s, STATUS_UNREACHABLE, "nothing new came for");
        assert_string_equal(is_repeat ? s->told : "1 2 3 ", "1 2 3 ");
        assert_int_equal(strncmp(s->told, "1 2 3 h ", 8) == 0, !is_repeat);
        leave(s);
    }
}

/* As long as something new comes it goes on, however often it breaks. */
TEST(whatever_is_new_gives_it_time)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 5000;
    s->offer.position = LENT(EPOCH "-1000");
    open_follower(s, "0");
    quiet_found(&s->offer);
    for (uint64_t seq = 0; seq < HISTORY_MAX; seq++) {
        quiet_say(message(s, seq, seq + 1));
        clock_pass_us(4999 * INT64_C(1000));
        quiet_end(LIVE_LOST, 0, "reset");
        assert_int_equal(s->ends, 0);
    }
}

/* Nor does the time count in which the caller wanted nothing. */
TEST(a_pause_is_no_silence)
{
    struct stage *s = *state;

    start_with(s, 5000);
    open_follower(s, "0");
    quiet_found(&s->offer);
    quiet_say(message(s, 0, 3));
    td_follower_pause(s->follower);
    clock_pass_us(5100 * INT64_C(1000));
    td_follower_resume(s->follower);
    quiet_turn();
    quiet_end(LIVE_LOST, 0, "reset");
    assert_int_equal(s->ends, 0);
    quiet_say(message(s, 3, 9));
    assert_ended(s, STATUS_OK, "");
}

static void
it_breaks_at_the_same_place(struct stage *s)
{
    if (quiet_is_seeking()) {
        quiet_found(&s->offer);
        return;
    }
    for (int i = 0; i < 300; i++)
        assert_true(quiet_resource("http://example.com/a", NULL));
    quiet_baseline_end(STATUS_UNREACHABLE, "the connection broke", NULL);
}

/* A baseline begun again is nothing new. */
TEST(a_baseline_that_always_breaks_is_given_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 3000;
    s->options.baseline = TD_BASELINE_FIRST;
    s->offer.resource_list = LENT(SET_URL "/resources");
    open_follower(s, NULL);
    go_on_until_it_ends(s, it_breaks_at_the_same_place);
    assert_ended(s, STATUS_UNREACHABLE, "the connection broke");
    assert_in_range(s->troubles, 1, 10);
}

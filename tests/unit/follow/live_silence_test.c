/*
 * live_silence_test.c - one WebSocket that stands: what is silence, by which a
 * dead connection is told from a quiet one, and what is not.
 */
#include "tests/test.h"
#include "tests/unit/follow/living.h"

FIXTURE(living_set, living_clear);

/* quiet can be told from dead. */
TEST(silence_ends_it)
{
    struct living *s = *state;

    s->idle_then_ms = 100;
    fake_stream(s->broker);
    fake_send(s->broker, SLICE("one"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_LOST, "silence for 0.1 s");
}

/* Nor do pings say that there is a broker behind who answers. */
TEST(pings_are_silence)
{
    struct living *s = *state;

    s->idle_then_ms = 400;
    fake_stream(s->broker);
    fake_send(s->broker, SLICE("one"));
    for (int i = 0; i < 12; i++) {
        fake_wait(s->broker);
        fake_ping(s->broker);
    }
    fake_send(s->broker, SLICE("late"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_keep_alive(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_LOST, "silence for 0.4 s");
}

/* Part after part of a long message is none. */
TEST(a_long_message_is_no_silence)
{
    struct living *s = *state;

    s->idle_ms = 6000;
    s->enough = 1;
    fake_stream(s->broker);
    fake_raw(s->broker, SLICE("\x81\x06"));
    for (int i = 0; i < 6; i++) {
        fake_wait(s->broker);
        fake_raw(s->broker, SLICE("o"));
    }
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_keep_alive(s);

    assert_end(s, LIVE_ENOUGH, "");
}

static void
let_go_on(void *user)
{
    struct living *s = user;

    fake_go(s->broker);
}

/* Takes longer than the silence may be; the server goes on behind it. */
static bool
take_long(char *bytes, size_t size, void *user)
{
    struct living *s = user;

    if (s->n_seen == 0) {
        usleep(s->idle_ms * 1200);
        s->idle_ms = 60000;
        timer_start(s->timer, 0);
    }
    return living_on_message(bytes, size, s);
}

/* the time that on_message takes is not silence ... */
TEST(the_time_for_a_message_is_not_silence)
{
    struct living *s = *state;

    s->idle_ms = 500;
    s->enough = 2;
    s->timer = timer_new(s->client->loop, let_go_on, s);
    fake_stream_with(s->broker, SLICE("\x81\x03one"));
    fake_wait(s->broker);
    fake_send(s->broker, SLICE("two"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);
    s->request.url = s->url;
    s->live = live_start(s->client, &s->request, take_long, living_on_end, s);

    living_turn(s);

    assert_string_equal(s->seen, "one|two|");
    assert_end(s, LIVE_ENOUGH, "");
}

/* ... nor is that of whoever turns the loop: what came meanwhile is
 * looked at first. */
TEST(the_time_of_others_is_not_silence)
{
    struct living *s = *state;

    s->idle_ms = 3000;
    s->enough = 2;
    s->pause_at = 1;
    fake_stream(s->broker);
    fake_send(s->broker, SLICE("one"));
    fake_wait(s->broker);
    fake_send(s->broker, SLICE("two"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);
    live_resume(s->live);
    living_rest(s);
    fake_go(s->broker);
    usleep(s->idle_ms * 1200);
    living_turn(s);

    assert_string_equal(s->seen, "one|two|");
    assert_end(s, LIVE_ENOUGH, "");
}

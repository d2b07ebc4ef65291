/*
 * live_connection_test.c - the rules of a live connection, for every transport.
 */
#include "tests/test.h"
#include "tests/unit/follow/transports.h"

#define PROBLEM "application/problem+json"

TEST_GROUP("WebSocket", by_websocket, NULL);
TEST_GROUP("events", by_events, NULL);
TEST_GROUP("long poll", by_long_poll, NULL);
FIXTURE(set_carried, living_clear);

static bool
is_stream(void)
{
    return by->after_one == LIVE_ENOUGH;
}

/* A server that says "<1>" and then nothing more. */
static void
start_with_one(struct living *s)
{
    serves(s, "carry <1> hold");
    s->enough = is_stream();
}

static void
assert_took_one(struct living *s)
{
    assert_string_equal(s->seen, "<1>|");
    assert_end(s, by->after_one, "");
    assert_int_equal(s->end.why.rc, STATUS_OK);
}

/* Messages */

TEST(a_message_is_handed_over)
{
    struct living *s = *state;

    start_with_one(s);

    living_run(s);

    assert_took_one(s);
}

TEST(the_longest_message_is_taken_and_a_longer_one_ends_it)
{
    struct living *s = *state;
    size_t size = LIVE_MESSAGE_MAX;
    char *text = malloc(size + 1);

    assert_non_null(text);
    memset(text, 'x', size + 1);
    text[0] = '<';
    for (size_t i = 0; i < 2; i++) {
        carry(s->broker);
        by->say(s->broker, (struct slice){text, size + i});
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);
    s->enough = 1;

    living_run(s);
    assert_string_equal(s->seen, "(16777216)|");
    assert_runs(s, "", LIVE_BROKEN, by->is_too_long);
    assert_int_equal(s->end.why.rc, STATUS_MALFORMED);
    free(text);
}

TEST(a_message_that_is_cut_off_is_none)
{
    struct living *s = *state;

    for (int i = 0; i < 2; i++) {
        carry(s->broker);
        if (is_stream())
            say(s->broker, "<1>");
        fake_raw(s->broker, by->halves[i]);
    }
    fake_broker_start(s->broker);

    for (int i = 0; i < 2; i++) {
        assert_runs_says(s, is_stream() ? "<1>|" : "", LIVE_LOST,
                         "the connection broke");
        assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
    }
}

/* Refusals */

/* in the broker's words, from the answer itself. */
TEST(a_refusal_is_told_in_the_brokers_words)
{
    struct living *s = *state;

    refuse(s, 404, PROBLEM "; charset=utf-8",
           "{\"title\":\"Not Found\",\"status\":404,"
           "\"detail\":\"there is no set \\\"news\\\"\"}");
    fake_answer(s->broker, 401, "text/html", "<p>nothing here");
    fake_broker_start(s->broker);

    assert_runs(s, "", LIVE_REFUSED, "404: there is no set \"news\"");
    assert_int_equal(s->end.why.rc, STATUS_REFUSED);
    assert_int_equal(s->end.why.http_status, 404);
    assert_runs(s, "", LIVE_REFUSED, "401: the server refused");
}

/* the meaning of each status. */
TEST(a_refusal_tells_whether_it_lasts)
{
    static const struct {
        unsigned status;
        enum status rc;
    } answers[] = {
        {422, STATUS_REFUSED},     {401, STATUS_REFUSED},
        {403, STATUS_REFUSED},     {410, STATUS_GONE},
        {429, STATUS_UNREACHABLE}, {500, STATUS_UNREACHABLE},
        {503, STATUS_UNREACHABLE},
    };
    struct living *s = *state;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        refuse(s, answers[i].status, PROBLEM, "{\"detail\":\"so it is\"}");
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        char text[32];

        snprintf(text, sizeof(text), "%u: so it is", answers[i].status);
        assert_runs(s, "", LIVE_REFUSED, text);
        assert_int_equal(s->end.why.http_status, answers[i].status);
        assert_int_equal(s->end.why.rc, answers[i].rc);
    }
}

/* Something between may not carry this transport, or only half of its request:
 * another one may get through. An answer of the broker to a request that came
 * whole is a refusal. */
TEST(an_answer_tells_who_gave_it)
{
    enum { PLAIN = 1, OURS = 2 };

    static const struct {
        unsigned status;
        int from;                              /* which bodies */
        enum live_how websocket, events, poll; /* what it means */
    } rows[] = {
        {200, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {204, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {301, PLAIN, LIVE_UNFIT, LIVE_REFUSED, LIVE_REFUSED},
        {302, PLAIN, LIVE_UNFIT, LIVE_REFUSED, LIVE_REFUSED},
        {400, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {400, OURS, LIVE_UNFIT, LIVE_REFUSED, LIVE_REFUSED},
        {401, PLAIN | OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {403, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {403, OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {404, PLAIN, LIVE_UNFIT, LIVE_REFUSED, LIVE_REFUSED},
        {404, OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {405, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {406, PLAIN | OURS, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {407, PLAIN, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {408, PLAIN | OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {410, PLAIN, LIVE_UNFIT, LIVE_REFUSED, LIVE_REFUSED},
        {410, OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {426, PLAIN | OURS, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {429, PLAIN | OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {500, PLAIN, LIVE_LOST, LIVE_LOST, LIVE_LOST},
        {500, OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {501, PLAIN | OURS, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
        {502, PLAIN, LIVE_LOST, LIVE_LOST, LIVE_LOST},
        {503, PLAIN, LIVE_LOST, LIVE_LOST, LIVE_LOST},
        {503, OURS, LIVE_REFUSED, LIVE_REFUSED, LIVE_REFUSED},
        {504, PLAIN, LIVE_LOST, LIVE_LOST, LIVE_LOST},
        {505, PLAIN | OURS, LIVE_UNFIT, LIVE_UNFIT, LIVE_REFUSED},
    };

    const size_t n = sizeof(rows) / sizeof(rows[0]);
    struct living *s = *state;

    for (size_t i = 0; i < n; i++) {
        if (rows[i].from & PLAIN)
            fake_answer(s->broker, rows[i].status,
                        "text/html\r\nLocation: http://127.0.0.1:1/",
                        "<p>what?");
        if (rows[i].from & OURS)
            refuse(s, rows[i].status, PROBLEM, "{\"detail\":\"what?\"}");
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < n; i++) {
        enum live_how how = by->transport == TD_WEBSOCKET ? rows[i].websocket
                            : by->transport == TD_EVENTS  ? rows[i].events
                                                          : rows[i].poll;

        for (int from = PLAIN; from <= OURS; from *= 2) {
            if (!(rows[i].from & from))
                continue;
            living_run(s);
            if (s->end.how != how)
                fail_msg("%u of %s is %d, \"%s\"", rows[i].status,
                         from == OURS ? "the broker" : "somebody between",
                         s->end.how, s->end.why.text);
            assert_int_equal(s->end.why.http_status, rows[i].status);
            if (how != LIVE_REFUSED)
                assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
        }
    }
}

TEST(a_server_that_is_away_is_told)
{
    struct living *s = *state;
    char text[64];

    snprintf(text, sizeof(text), by->is_away, fake_broker_port(s->broker));

    assert_runs_says(s, "", LIVE_LOST, text);
    assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
}

/* Time */

TEST(an_answer_that_does_not_come_ends_it)
{
    static const char *const heads[] = {"", "HTTP/1.1 101 Sw"};
    struct living *s = *state;
    char text[64];

    s->request.answer_ms = 2000;
    snprintf(text, sizeof(text), "no answer for %u.0 s",
             2 + by->wait_ms / 1000);
    for (int i = 0; i < 2; i++) {
        fake_plain(s->broker);
        fake_raw(s->broker, slice_of(heads[i]));
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (unsigned i = 0; i < 2; i++) {
        living_start(s);
        living_until_rest(s, i + 1);
        assert_ends_after(s, 2000 + by->wait_ms, by->as_mute, text);
    }
}

/* Asks a server that waits, begins a message and waits for the rest of it. Each
 * part is one of the network, too: it arrives before the next is sent. */
static void
start_with_a_part(struct living *s)
{
    fake_broker_start(s->broker);
    living_start(s);
    if (is_stream())
        living_until_answered(s);
    living_until_rest(s, 1);
    fake_go(s->broker);
    if (is_stream())
        living_await_ready(s);
    living_until_answered(s); /* the body is the answer */
}

static void
hear_a_part(struct living *s)
{
    assert_false(s->has_end);
    fake_go(s->broker);
    living_await_ready(s);
    living_rest(s);
}

/* part after part of a long message is a sign of life ... */
TEST(a_long_message_is_no_silence)
{
    struct living *s = *state;

    serve(s, "carry wait BEGIN");
    for (int i = 0; i < 5; i++) {
        serve(s, "wait MORE");
    }
    serve(s, "END hold");
    s->enough = 1;

    start_with_a_part(s);
    for (int i = 0; i < 4; i++) {
        living_pass(s, s->idle_ms / 2);
        hear_a_part(s);
    }
    assert_false(s->has_end);
    fake_go(s->broker);
    living_turn(s);

    assert_string_equal(s->seen, "<ooooo|");
    assert_end(s, LIVE_ENOUGH, "");
}

/* ... but not for ever. */
TEST(silence_within_a_message_ends_it)
{
    struct living *s = *state;

    serve(s, "carry wait BEGIN wait MORE hold");

    start_with_a_part(s);
    living_pass(s, s->idle_ms / 2);
    hear_a_part(s);

    assert_ends_after(s, s->idle_ms, by->as_mute, "silence for 60.0 s");
}

/* Pausing, freeing */

TEST(it_may_be_paused_from_the_beginning)
{
    struct living *s = *state;

    start_with_one(s);

    living_start(s);
    live_hold(s->live, true);
    living_until_rest(s, 1);
    assert_has_time(s); /* no silence either */
    assert_string_equal(s->seen, "");
    live_hold(s->live, false);
    living_turn(s);

    assert_took_one(s);
}

TEST(it_may_be_freed_by_what_it_calls)
{
    struct living *s = *state;

    serves(s, "carry wait <1> <2> hold");
    s->free_at = 1;

    living_start_at_once(s);
    living_turn(s);
    living_rest(s);

    assert_string_equal(s->seen, "<1>|");
    assert_false(s->has_end);
}

TEST(it_may_be_freed_at_any_moment)
{
    struct living *s = *state;

    serves(s, "plain hold");

    living_start(s);
    live_free(s->live);
    living_start(s);
    living_until_rest(s, 1);
    live_free(s->live);
    s->live = NULL;
    living_rest(s);

    assert_false(s->has_end);
}

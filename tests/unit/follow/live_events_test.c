/*
 * live_events_test.c - changes by server-sent events and by long polls.
 */
#include "tests/test.h"
#include "tests/unit/follow/living.h"

#define PROBLEM "application/problem+json"
#define HEAD    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static int
set_events(void **state)
{
    living_set(state);
    ((struct living *)*state)->request.transport = TD_EVENTS;
    return 0;
}

static int
set_poll(void **state)
{
    struct living *s;

    living_set(state);
    s = *state;
    s->request.transport = TD_LONG_POLL;
    snprintf(s->url, sizeof(s->url), "%s/changes?after=0",
             fake_broker_url(s->broker));
    return 0;
}

/* Events */

TEST(changes_and_heartbeats_are_messages, set_events, living_clear)
{
    struct living *s = *state;

    s->enough = 3;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "retry: 2417\n\n"
                                   "id: e-1\nevent: heartbeat\ndata: one\n\n"
                                   ": nothing\n\nevent: other\ndata: no\n\n"
                                   "id: e-2\nevent: changes\nda"));
    fake_raw(s->broker, SLICE("ta: two\n\nevent: changes\ndata: three\n\n"
                              "event: changes\ndata: four\n\n"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "one|two|three|");
    assert_end(s, LIVE_ENOUGH, "");
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/stream?after=0 HTTP/1.1\r\n", 40);
    assert_non_null(strstr(fake_request(s->broker, 0),
                           "\r\nAccept: text/event-stream\r\n"));
}

/* as the close codes of a WebSocket. */
TEST(the_last_event_says_why, set_events, living_clear)
{
    struct living *s = *state;

    static const struct {
        const char *event;
        unsigned code;
    } ends[] = {{"gone", 4410},
                {"removed", 4404},
                {"farewell", 1001},
                {"failed", 1011}};

    char text[4][200];

    for (size_t i = 0; i < 4; i++) {
        snprintf(text[i], sizeof(text[i]),
                 HEAD "event: changes\ndata: one\n\nevent: %s\n"
                      "data: {\"detail\":\"so it is\",\"last\":5}\n\n",
                 ends[i].event);
        fake_plain(s->broker);
        fake_raw(s->broker, slice_of(text[i]));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < 4; i++) {
        s->has_end = false;
        s->seen[0] = '\0';
        living_run(s);
        assert_string_equal(s->seen, "one|");
        assert_end(s, LIVE_CLOSED, "so it is");
        assert_int_equal(s->end.code, ends[i].code);
    }
}

TEST(an_event_that_is_cut_off_is_none, set_events, living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: one\n\n"
                                   "event: changes\ndata: tw"));
    fake_plain(s->broker);
    fake_raw(s->broker,
             SLICE("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"
                   "1b\r\nevent: changes\ndata: one\n\n\r\n9"));
    fake_broker_start(s->broker);

    for (int i = 0; i < 2; i++) {
        s->has_end = false;
        s->seen[0] = '\0';
        living_run(s);
        assert_string_equal(s->seen, "one|");
        assert_end_says(s, LIVE_LOST, "the connection broke");
    }
}

TEST(events_that_are_too_long_end_it, set_events, living_clear)
{
    struct living *s = *state;
    size_t size = LIVE_MESSAGE_MAX;
    char *text = malloc(size + 2);

    assert_non_null(text);
    memset(text, 'x', size);
    memcpy(text + size, "\n\n", 2);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: "));
    fake_raw(s->broker, (struct slice){text, size + 2});
    fake_raw(s->broker, SLICE("event: changes\ndata: x"));
    fake_raw(s->broker, (struct slice){text, size});
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "(16777216)|");
    assert_end(s, LIVE_BROKEN,
               "the broker sent an event of more than 16777216 bytes");
    free(text);
}

TEST(what_is_no_stream_of_events_means_another_transport, set_events,
     living_clear)
{
    struct living *s = *state;
    static const unsigned answers[] = {200, 204, 400, 403, 406, 501};

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        fake_answer(s->broker, answers[i], "text/html", "<p>what?");
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        s->has_end = false;
        living_run(s);
        assert_int_equal(s->end.how, LIVE_UNFIT);
        assert_int_equal(s->end.why.rc, TD_UNREACHABLE);
    }
}

/* Events are in JSON. */
TEST(nor_are_there_events_in_xml, set_events, living_clear)
{
    struct living *s = *state;

    s->request.form = TD_XML;

    living_run(s);

    assert_end(s, LIVE_UNFIT, "events carry JSON alone");
}

TEST(refusals_are_told_in_the_brokers_words, set_events, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 404, PROBLEM, "{\"detail\":\"no such set\"}");
    fake_answer(s->broker, 410, PROBLEM, "{\"detail\":\"gone\"}");
    fake_broker_start(s->broker);

    living_run(s);
    assert_end(s, LIVE_REFUSED, "404: no such set");
    assert_int_equal(s->end.why.rc, TD_REFUSED);
    s->has_end = false;
    living_run(s);
    assert_end(s, LIVE_REFUSED, "410: gone");
    assert_int_equal(s->end.why.rc, TD_GONE);
}

/* A proxy may keep a stream until it is whole, which is never. */
TEST(silence_from_the_beginning_means_another_transport, set_events,
     living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_hold(s->broker);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "retry: 1000\n\n"));
    fake_hold(s->broker);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: one\n\n"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    s->request.answer_ms = 100;
    living_run(s);
    assert_end(s, LIVE_UNFIT, "no answer for 0.1 s");
    s->request.answer_ms = 60000;
    s->idle_ms = 100;
    s->has_end = false;
    living_run(s);
    assert_end(s, LIVE_UNFIT, "silence for 0.1 s");
    s->idle_ms = 60000;
    s->idle_then_ms = 100;
    s->has_end = false;
    living_run(s);
    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_LOST, "silence for 0.1 s");
}

/* a proxy keeps a stream alive by comments whose broker is gone. What
 * the broker says is heartbeats, which are events. */
TEST(comments_are_silence, set_events, living_clear)
{
    struct living *s = *state;
    const struct slice comment = SLICE(": alive\n\n");

    s->idle_then_ms = 400;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: one\n\n"));
    for (int i = 0; i < 12; i++) {
        fake_wait(s->broker);
        fake_raw(s->broker, comment);
    }
    fake_raw(s->broker, SLICE("event: changes\ndata: late\n\n"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_keep_alive(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_LOST, "silence for 0.4 s");
}

/* Part after part of a long event is none. */
TEST(a_long_event_is_no_silence, set_events, living_clear)
{
    struct living *s = *state;

    s->idle_ms = 6000;
    s->enough = 1;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: "));
    for (int i = 0; i < 6; i++) {
        fake_wait(s->broker);
        fake_raw(s->broker, SLICE("o"));
    }
    fake_raw(s->broker, SLICE("\n\n"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_keep_alive(s);

    assert_end(s, LIVE_ENOUGH, "");
}

TEST(events_wait_while_it_is_paused, set_events, living_clear)
{
    struct living *s = *state;

    s->idle_ms = 100;
    s->pause_at = 2;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: one\n\n"
                                   "event: changes\ndata: two\n\n"
                                   "event: changes\ndata: three\n\n"
                                   "event: changes\ndata: four\n\n"));
    fake_wait(s->broker);
    fake_raw(s->broker, SLICE("event: farewell\ndata: {}\n\n"));
    fake_broker_start(s->broker);

    living_run(s);
    fake_go(s->broker);
    usleep(2 * s->idle_ms * 1000); /* that is no silence */
    living_rest(s);
    assert_string_equal(s->seen, "one|two|");
    assert_false(s->has_end);
    s->idle_ms = 60000;
    live_resume(s->live);
    s->pause_at = 3;
    living_turn(s);
    assert_string_equal(s->seen, "one|two|three|");
    live_resume(s->live);
    living_turn(s);

    assert_string_equal(s->seen, "one|two|three|four|");
    assert_end(s, LIVE_CLOSED, "");
    assert_int_equal(s->end.code, 1001);
}

TEST(it_may_be_freed_by_what_it_calls, set_events, living_clear)
{
    struct living *s = *state;

    s->free_at = 1;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "event: changes\ndata: one\n\n"
                                   "event: changes\ndata: two\n\n"));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);
    living_rest(s);

    assert_string_equal(s->seen, "one|");
    assert_false(s->has_end);
}

/* Long polls */

TEST(an_answer_is_one_message, set_poll, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 200, "application/json; charset=utf-8", "one");
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_AGAIN, "");
    assert_int_equal(s->end.why.rc, TD_OK);
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?after=0&wait=20 HTTP/1.1", 47);
    assert_non_null(
        strstr(fake_request(s->broker, 0), "\r\nAccept: application/json\r\n"));
}

TEST(an_answer_in_xml_is_asked_for_in_xml, set_poll, living_clear)
{
    struct living *s = *state;

    s->request.form = TD_XML;
    s->idle_ms = 2999;
    s->enough = 1;
    snprintf(s->url, sizeof(s->url), "%s/changes", fake_broker_url(s->broker));
    fake_answer(s->broker, 200, "application/xml", "<urlset/>");
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "<urlset/>|");
    assert_end(s, LIVE_ENOUGH, "");
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?wait=1 HTTP/1.1", 38);
    assert_non_null(
        strstr(fake_request(s->broker, 0), "\r\nAccept: application/xml\r\n"));
}

TEST(how_long_it_waits_may_be_told, set_poll, living_clear)
{
    struct living *s = *state;

    snprintf(s->url, sizeof(s->url), "%s/changes?wait=0&tag=wait",
             fake_broker_url(s->broker));
    fake_answer(s->broker, 200, "application/json", "one");
    fake_broker_start(s->broker);

    living_run(s);

    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?wait=0&tag=wait HTTP/1.1", 47);
}

TEST(a_poll_that_is_not_answered_ends_behind_its_time, set_poll, living_clear)
{
    struct living *s = *state;

    s->request.answer_ms = 100;
    snprintf(s->url, sizeof(s->url), "%s/changes?wait=0",
             fake_broker_url(s->broker));
    fake_plain(s->broker);
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    living_run(s);

    assert_end(s, LIVE_LOST, "no answer for 0.1 s");
}

TEST(what_is_no_message_is_refused, set_poll, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 200, "text/html", "<p>what?");
    fake_answer(s->broker, 503, PROBLEM, "{\"detail\":\"busy\"}");
    fake_answer(s->broker, 403, "text/plain", "no");
    fake_broker_start(s->broker);

    living_run(s);
    assert_end(s, LIVE_REFUSED, "200: that is no stream of changes");
    assert_int_equal(s->end.why.rc, TD_REFUSED);
    s->has_end = false;
    living_run(s);
    assert_end(s, LIVE_REFUSED, "503: busy");
    assert_int_equal(s->end.why.rc, TD_UNREACHABLE);
    s->has_end = false;
    living_run(s);
    assert_end(s, LIVE_REFUSED, "403: the server refused");
}

TEST(half_an_answer_is_none, set_poll, living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_raw(s->broker, SLICE("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"
                              "Content-Type: application/json\r\n\r\none"));
    fake_silence(s->broker);
    fake_broker_start(s->broker);

    living_run(s);
    assert_end_says(s, LIVE_LOST, "the connection broke: ");
    s->has_end = false;
    living_run(s);
    assert_end_says(s, LIVE_LOST, "the connection broke: ");
    assert_string_equal(s->seen, "");
}

static void
check_that_a_server_is_away(struct living *s)
{
    living_run(s);

    assert_end_says(s, LIVE_LOST, "cannot connect: ");
    assert_int_equal(s->end.why.rc, TD_UNREACHABLE);
}

TEST(a_server_that_is_away_is_told, set_events, living_clear)
{
    check_that_a_server_is_away(*state);
}

TEST(a_server_that_is_away_is_told_to_a_poll, set_poll, living_clear)
{
    check_that_a_server_is_away(*state);
}

TEST(an_answer_that_is_too_long_ends_it, set_poll, living_clear)
{
    struct living *s = *state;
    size_t size = LIVE_MESSAGE_MAX + 1;
    char *text = malloc(size);

    assert_non_null(text);
    memset(text, 'x', size);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE("HTTP/1.1 200 OK\r\n"
                              "Content-Type: application/json\r\n\r\n"));
    fake_raw(s->broker, (struct slice){text, size});
    fake_broker_start(s->broker);

    living_run(s);

    assert_end(s, LIVE_BROKEN, "the broker sent more than 16777216 bytes");
    free(text);
}

TEST(an_answer_waits_while_it_is_paused, set_poll, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 200, "application/json", "one");
    fake_broker_start(s->broker);

    living_start(s);
    live_pause(s->live);
    while (!fake_request(s->broker, 0)[0])
        living_rest(s);
    living_rest(s);
    assert_string_equal(s->seen, "");
    live_resume(s->live);
    living_turn(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_AGAIN, "");
}

TEST(a_poll_may_be_freed_by_what_it_calls, set_poll, living_clear)
{
    struct living *s = *state;

    s->free_at = 1;
    fake_answer(s->broker, 200, "application/json", "one");
    fake_broker_start(s->broker);

    living_run(s);
    living_rest(s);

    assert_string_equal(s->seen, "one|");
    assert_false(s->has_end);
}

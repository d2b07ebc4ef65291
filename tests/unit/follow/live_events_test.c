/*
 * live_events_test.c - changes by server-sent events and by long polls.
 */
#include "tests/test.h"
#include "tests/unit/follow/transports.h"

#define PROBLEM "application/problem+json"
#define HEAD    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

static int
set_events(void **state)
{
    by_events(state);
    return set_carried(state);
}

static int
set_poll(void **state)
{
    by_long_poll(state);
    return set_carried(state);
}

/* Events */

TEST(changes_and_heartbeats_are_messages, set_events, living_clear)
{
    struct living *s = *state;

    s->enough = 3;
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "\r\nretry: 2417\n\n"
                                   "id: e-1\nevent: heartbeat\ndata: <1>\n\n"
                                   ": nothing\n\nevent: other\ndata: no\n\n"
                                   "id: e-2\nevent: changes\nda"));
    fake_raw(s->broker, SLICE("ta: <2>\n\nevent: changes\ndata: <3>\n\n"
                              "event: changes\ndata: <4>\n\n"));
    serves(s, "hold");

    assert_runs(s, "<1>|<2>|<3>|", LIVE_ENOUGH, "");
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/stream?after=0 HTTP/1.1\r\n", 40);
    assert_non_null(strstr(fake_request(s->broker, 0),
                           "\r\nAccept: text/event-stream\r\n"));
}

TEST(a_chunk_that_is_cut_off_is_no_event, set_events, living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "Transfer-Encoding: chunked\r\n\r\n"
                                   "1b\r\nevent: changes\ndata: <1>\n\n\r\n9"));
    fake_broker_start(s->broker);
    assert_runs_says(s, "<1>|", LIVE_LOST, "the connection broke");
}

/* a follower hashes lines, which the events of older brokers lack. */
TEST(events_without_lines_are_left, set_events, living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(HEAD "\r\nevent: changes\n"
                                   "data: <a>\ndata: <url/>\ndata: </a>\n\n"
                                   "event: heartbeat\ndata: {}\n\n"));
    serves(s, "hold");
    assert_runs(s, "<a>\n<url/>\n</a>|", LIVE_UNFIT,
                "the events of this broker have no lines of the log");
}

/* Long polls */

TEST(an_answer_is_one_message, set_poll, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 200, "application/xml; charset=utf-8", "<1>");
    fake_broker_start(s->broker);

    assert_runs(s, "<1>|", LIVE_AGAIN, "");
    assert_int_equal(s->end.why.rc, STATUS_OK);
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?after=0&wait=20 HTTP/1.1", 47);
    assert_non_null(
        strstr(fake_request(s->broker, 0), "\r\nAccept: application/xml\r\n"));
}

TEST(an_answer_in_xml_is_asked_for_in_xml, set_poll, living_clear)
{
    struct living *s = *state;

    s->idle_ms = 2999;
    s->enough = 1;
    snprintf(s->url, sizeof(s->url), "%s/changes", fake_broker_url(s->broker));
    fake_answer(s->broker, 200, "application/xml", "<urlset/>");
    fake_broker_start(s->broker);

    assert_runs(s, "<urlset/>|", LIVE_ENOUGH, "");
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?wait=1 HTTP/1.1", 38);
    assert_non_null(
        strstr(fake_request(s->broker, 0), "\r\nAccept: application/xml\r\n"));
}

TEST(how_long_it_waits_may_be_told, set_poll, living_clear)
{
    struct living *s = *state;

    s->request.is_at_once = true;
    snprintf(s->url, sizeof(s->url), "%s/changes?tag=wait",
             fake_broker_url(s->broker));
    fake_answer(s->broker, 200, "application/xml", "<1>");
    fake_broker_start(s->broker);

    living_run(s);

    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/changes?tag=wait&wait=0 HTTP/1.1", 47);
}

TEST(who_is_to_answer_at_once_has_no_time_to_wait, set_poll, living_clear)
{
    struct living *s = *state;

    s->request.answer_ms = 100;
    s->request.is_at_once = true;
    snprintf(s->url, sizeof(s->url), "%s/changes", fake_broker_url(s->broker));
    serves(s, "plain hold");

    living_start(s);
    living_until_rest(s, 1);

    assert_ends_after(s, 100, LIVE_LOST, "no answer for 0.1 s");
}

TEST(what_is_no_message_is_refused, set_poll, living_clear)
{
    struct living *s = *state;

    fake_answer(s->broker, 200, "text/html", "<p>what?");
    fake_answer(s->broker, 503, PROBLEM, "{\"detail\":\"busy\"}");
    fake_answer(s->broker, 403, "text/plain", "no");
    fake_broker_start(s->broker);

    assert_runs(s, "", LIVE_REFUSED, "200: that is no stream of changes");
    assert_int_equal(s->end.why.rc, STATUS_REFUSED);
    assert_runs(s, "", LIVE_REFUSED, "503: busy");
    assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
    assert_runs(s, "", LIVE_REFUSED, "403: the server refused");
}

TEST(half_an_answer_is_none, set_poll, living_clear)
{
    struct living *s = *state;

    fake_plain(s->broker);
    fake_raw(s->broker, SLICE("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"
                              "Content-Type: application/xml\r\n\r\n<1>"));
    serves(s, "silence");

    assert_runs_says(s, "", LIVE_LOST, "the connection broke: ");
    assert_runs_says(s, "", LIVE_LOST, "the connection broke: ");
    assert_string_equal(s->seen, "");
}

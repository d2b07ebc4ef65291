/*
 * follow_connection_test.c - td_follow where connections break, are refused, or
 * are to end.
 */
#include <pthread.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/follow/following.h"

/* Connections that end */

FIXTURE(set_stage, clear_stage);

/* after a farewell it goes on from its position. */
TEST(goes_on_after_a_farewell)
{
    struct stage *s = *state;

    assert_follows(s, "d s 0-2 restart s 2-4", "0", 4, "1 2 3 4 ", 1);
    assert_asked(s, 1, STREAM "?after=" EPOCH "-2 HTTP/1.1");
    assert_non_null(strstr(s->trouble, "1001 restart"));
}

/* a connection that breaks in the middle of a message loses and repeats
 * nothing. */
TEST(goes_on_after_half_a_message)
{
    struct stage *s = *state;
    struct slice whole = xml(s, 2, 4);

    tell_scenes(s, "d s 0-2", NULL);
    fake_send_part(s->broker, (struct slice){whole.data, whole.size / 2}, true,
                   false);
    assert_follows(s, "s 2-4", "0", 4, "1 2 3 4 ", 1);
}

/* so does one that breaks the rules of WebSocket. */
TEST(goes_on_after_a_broken_frame)
{
    struct stage *s = *state;

    assert_follows(s, "d s 0-2 raw s 2-3", "0", 3, "1 2 3 ", 1);
}

/* a follower without heartbeats cannot know quiet from dead, so it
 * connects anew. */
TEST(goes_on_after_silence)
{
    struct stage *s = *state;

    s->options.idle_ms = 3000;
    s->silences = 2;
    assert_follows(s, "d s hold d s 0-2 hold s 2-3", "0", 3, "1 2 3 ", 2);
    assert_string_equal(s->trouble, "silence for 3.0 s");
}

/* the time that on_message takes is not silence. */
TEST(takes_its_time_with_a_message)
{
    struct stage *s = *state;

    s->options.idle_ms = 3000;
    s->busy_ms = 3600;
    assert_follows(s, "d s 0-1 wait 1-2 hold", "0", 2, "1 2 ", 0);
}

/* a broker that is away or busy is asked again, from the first attempt
 * on. */
TEST(goes_on_until_the_broker_is_there)
{
    struct stage *s = *state;

    s->starts_on_trouble = true;
    assert_follows(s, "nothing 503 d s 0-1", "0", 1, "1 ", 3);
}

/* Refusals */

/* a set that does not exist: at once, and in the broker's words. */
TEST(an_unknown_set_is_refused)
{
    struct stage *s = *state;
    static const char body[] =
        "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
        "\"detail\":\"there is no set \\\"news\\\"\"}";

    fake_answer(s->broker, 404, "application/problem+json", body);
    fake_answer(s->broker, 404, "text/plain", ""); /* nor of its host */
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, NULL, TD_JSON, 1), TD_REFUSED);

    assert_non_null(
        strstr(td_problem(s->client), "404: there is no set \"news\""));
    assert_int_equal(td_answered(s->client, NULL), 404);
    assert_asked(s, 0, "GET /sets/news HTTP/1.1");
}

/* the same of its stream. */
TEST(a_stream_that_is_not_there_is_refused)
{
    struct stage *s = *state;

    hold_talk(s, &(struct talk){.script = "d 404 404",
                                .rc = TD_REFUSED,
                                .seen = "",
                                .until = 1,
                                .problem = "404: " EARLIEST,
                                .first = STREAM " HTTP/1.1"});
}

/* without a reason it reports the status. */
TEST(a_refusal_without_a_reason_is_told_as_it_is)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_answer(s->broker, 403, "text/plain", "no");
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, NULL, TD_JSON, 1), TD_REFUSED);

    assert_memory_equal(td_problem(s->client), "403: the server refused", 23);
}

/* something else lives at that address. */
TEST(an_answer_that_is_no_stream_is_refused)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_answer(s->broker, 200, "text/html", "<p>hello");
    fake_describe(s->broker);
    fake_answer(s->broker, 301, "text/html\r\nLocation: http://127.0.0.1:1/",
                "");
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, NULL, TD_JSON, 1), TD_REFUSED);
    assert_int_equal(follow(s, NULL, TD_JSON, 1), TD_REFUSED);
    assert_memory_equal(td_problem(s->client), "301", 3);
}

/* malformed arguments are not sent. */
TEST(malformed_arguments_are_invalid)
{
    struct stage *s = *state;
    static const char *const urls[] = {
        "",
        "news",
        "ftp://example.com/sets/news",
        "http://",
        "http:///sets/news",
        "http://example.com/sets/news#x",
        "http://me:secret@example.com/sets/news",
        "http://example.com/sets/ne ws",
    };

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_int_equal(td_follow(s->client, urls[i], NULL, on_message, s),
                         TD_INVALID);
        assert_string_not_equal(td_problem(s->client), "");
    }
    assert_int_equal(follow(s, "yesterday", TD_JSON, 1), TD_INVALID);
    assert_int_equal(follow(s, "", TD_JSON, 1), TD_INVALID);
}

/* A program may be of a later version than the library. */
TEST(options_of_no_meaning_are_invalid)
{
    struct stage *s = *state;
    static const struct td_follow_options options[] = {
        {.transports = 1u << 30},
        {.baseline = (enum td_baseline)99},
        {.form = (enum td_form)99},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        assert_int_equal(td_follow(s->client, "http://example.com/sets/news",
                                   &options[i], on_message, s),
                         TD_INVALID);
        assert_string_equal(td_problem(s->client),
                            "no such transport, form or use of baselines");
    }
}

/* Stopping */

/* td_stop before the call ends it at once, and is then used up. */
TEST(a_stop_is_never_lost)
{
    struct stage *s = *state;

    tell_scenes(s, "d s 0-1", NULL);
    td_stop(s->client);
    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_STOPPED);
    assert_string_equal(s->seen, "");
    assert_string_equal(td_problem(s->client), "");

    fake_broker_start(s->broker);
    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_STOPPED);
    assert_string_equal(s->seen, "1 ");
}

static void *
stop_when_heard(void *user)
{
    struct stage *s = user;

    sem_wait(&s->heard);
    td_stop(s->client);
    return NULL;
}

/* from another thread, while it waits for the next message. */
TEST(stops_while_it_waits)
{
    struct stage *s = *state;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, stop_when_heard, s), 0);
    assert_follows(s, "d s 3-3 hold", NULL, 0, "h ", 0);
    pthread_join(thread, NULL);
}

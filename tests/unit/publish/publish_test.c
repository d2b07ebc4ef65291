/*
 * publish_test.c - td_publish against a broker that follows the test's script.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define RECEIPT                                 \
    "{\"set\":\"news\",\"first\":7,\"last\":9," \
    "\"position\":\"0123456789abcdef-9\","      \
    "\"datetime\":\"2026-01-01T00:00:09.000001Z\"}"

#define IN_DOUBT "; the post may or may not have been kept"

struct stage {
    struct fake_broker *broker;
    struct td_client *client;
    struct td_publish_options options;
    struct td_receipt receipt;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    clock_skip_waits(transfers_none, NULL);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    td_close(s->client);
    fake_broker_free(s->broker);
    free(s);
    return 0;
}

static enum td_status
publish(struct stage *s, const char *type, const char *body)
{
    return td_publish(s->client, fake_broker_url(s->broker), type, body,
                      strlen(body), &s->options, &s->receipt);
}

FIXTURE(set_stage, clear_stage);

/* the receipt of a post that is durable. */
TEST(gives_the_receipt)
{
    struct stage *s = *state;
    const char *request;

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/json", "[1,2,3]"), TD_OK);

    assert_int_equal(s->receipt.first, 7);
    assert_int_equal(s->receipt.last, 9);
    assert_string_equal(s->receipt.position, "0123456789abcdef-9");
    assert_string_equal(s->receipt.datetime, "2026-01-01T00:00:09.000001Z");
    assert_string_equal(td_problem(s->client), "");
    request = fake_request(s->broker, 0);
    assert_memory_equal(request, "POST /sets/news/changes HTTP/1.1\r\n", 34);
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    assert_string_equal(strstr(request, "\r\n\r\n"), "\r\n\r\n[1,2,3]");
}

/* a large post does not wait for a 100 Continue, which may not come. */
TEST(sends_a_large_post_at_once)
{
    struct stage *s = *state;
    static char body[3 << 20];

    memset(body, ' ', sizeof(body) - 1);
    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/json", body), TD_OK);

    assert_non_null(strstr(fake_request(s->broker, 0), "Content-Length: 3145"));
    assert_null(strstr(fake_request(s->broker, 0), "Expect:"));
}

/* nobody need want the receipt; a slash at the end does not matter. */
TEST(needs_no_receipt)
{
    struct stage *s = *state;
    char url[100] = "";

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);
    strcat(strcpy(url, fake_broker_url(s->broker)), "/");

    assert_int_equal(
        td_publish(s->client, url, "application/xml", "<a/>", 4, NULL, NULL),
        TD_OK);

    assert_memory_equal(fake_request(s->broker, 0), "POST /sets/news/changes ",
                        24);
}

/* a refusal names the entry and the line. */
TEST(tells_which_entry_was_refused)
{
    struct stage *s = *state;

    fake_answer(s->broker, 422, "application/problem+json",
                "{\"type\":\"about:blank\",\"title\":\"Unprocessable\","
                "\"status\":422,\"detail\":\"loc is not an absolute URI, such "
                "as http://example.com/a: "
                "\\\"caf\\u00e9\\\"\",\"entry\":3,\"line\":9}");
    fake_answer(s->broker, 400, "application/problem+json",
                "{\"detail\":\"unexpected\\nend\",\"line\":12}");
    fake_answer(s->broker, 415, "application/problem+json",
                "{\"title\":\"Unsupported Media Type\"}");
    fake_answer(s->broker, 403, "text/html", "<h1>no</h1>");
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client),
                        "422: entry 3, line 9: loc is not an absolute URI, "
                        "such as http://example.com/a: "
                        "\"caf\xc3\xa9\"");
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "400: line 12: unexpected end");
    assert_int_equal(publish(s, "image/png", ""), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "415: Unsupported Media Type");
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "403: the server refused");
}

/* busy or away is not refused. */
TEST(tells_when_nobody_can_answer)
{
    struct stage *s = *state;

    fake_answer(s->broker, 503, "application/problem+json",
                "{\"detail\":\"the disk is full\"}");
    fake_nothing(s->broker);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_UNREACHABLE);
    assert_string_not_equal(td_problem(s->client), "");

    fake_broker_start(s->broker);
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_UNREACHABLE);
    assert_string_equal(td_problem(s->client), "503: the disk is full");
    s->options.retry_ms = -1;
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_UNREACHABLE);
    assert_non_null(strstr(td_problem(s->client), IN_DOUBT));
}

/* a post is never sent elsewhere. */
TEST(follows_no_redirect)
{
    struct stage *s = *state;

    fake_answer(s->broker, 307, "text/html\r\nLocation: /sets/other/changes",
                "");
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);

    assert_memory_equal(td_problem(s->client), "307", 3);
}

/* td_publish takes no other answer for a receipt. */
TEST(needs_a_whole_receipt)
{
    struct stage *s = *state;
    static const char *const bodies[] = {
        "",
        "<html>",
        "{}",
        "[1]",
        "{\"first\":1,\"last\":2,\"position\":\"x\"}",
        "{\"first\":-1,\"last\":2,\"position\":\"x\",\"datetime\":\"y\"}",
        "{\"first\":\"1\",\"last\":2,\"position\":\"x\",\"datetime\":\"y\"}",
        ("{\"a\":{\"first\":1,\"last\":2,"
         "\"position\":\"x\",\"datetime\":\"y\"}}"),
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        fake_answer(s->broker, 200, "application/json", bodies[i]);
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(publish(s, "application/xml", "<a/>"), TD_BROKEN);
}

/* malformed arguments are not sent. */
TEST(malformed_arguments_are_invalid)
{
    struct stage *s = *state;

    assert_int_equal(
        td_publish(s->client, "news", "text/xml", "", 0, NULL, NULL),
        TD_INVALID);
    assert_int_equal(publish(s, "text/xml\r\nX: y", ""), TD_INVALID);
    s->options.key = "a b";
    assert_int_equal(publish(s, "text/xml", ""), TD_INVALID);
    s->options.key = "a\r\nX: y";
    assert_int_equal(publish(s, "text/xml", ""), TD_INVALID);
}

/* The key that request `i` came with, into `key`; "": none. */
static const char *
key_of(struct stage *s, size_t i, char key[600])
{
    static const char name[] = "\r\nIdempotency-Key: ";
    const char *line = strstr(fake_request(s->broker, i), name);

    key[0] = '\0';
    if (line)
        sscanf(line + strlen(name), "%599[^\r]", key);
    return key;
}

/* Each post has a key of its own, 128 bits by chance. */
TEST(gives_each_post_a_key)
{
    struct stage *s = *state;
    char keys[2][600];

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(publish(s, "application/json", "[]"), TD_OK);
        assert_int_equal(strlen(key_of(s, i, keys[i])), 34);
        assert_int_equal(strspn(keys[i] + 1, "0123456789abcdef"), 32);
        assert_int_equal(keys[i][0], '"');
        assert_int_equal(keys[i][33], '"');
    }
    assert_string_not_equal(keys[0], keys[1]);
}

/* A caller may give its own key, or none. */
TEST(takes_the_callers_key)
{
    struct stage *s = *state;
    char key[600];

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);

    s->options.key = "a/\"b\\c";
    assert_int_equal(publish(s, "application/json", "[]"), TD_OK);
    s->options.key = "";
    assert_int_equal(publish(s, "application/json", "[]"), TD_OK);

    assert_string_equal(key_of(s, 0, key), "\"a/\\\"b\\\\c\"");
    assert_string_equal(key_of(s, 1, key), "");
}

/* Reported troubles, in order. */
struct troubles {
    unsigned n;
    char why[4][300];
    unsigned pause_ms[4];
    unsigned stop_at; /* calls td_stop at so many; 0: never */
    struct td_client *client;
};

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct troubles *t = user;

    if (t->n < 4) {
        snprintf(t->why[t->n], sizeof(t->why[0]), "%s", why);
        t->pause_ms[t->n] = pause_ms;
    }
    if (++t->n == t->stop_at)
        td_stop(t->client);
}

/* After a lost answer td_publish does not leave the outcome open: it asks again
 * with the same key, and also when the broker asks it to repeat. */
TEST(repeats_a_post_whose_answer_was_lost)
{
    struct stage *s = *state;
    struct troubles troubles = {.n = 0};
    char keys[4][600];

    fake_silence(s->broker);
    fake_answer(s->broker, 409, "application/problem+json\r\nRetry-After: 1",
                "{\"detail\":\"it is at work\"}");
    fake_answer(s->broker, 503, "application/problem+json\r\nRetry-After: 1",
                "{\"detail\":\"too much\"}");
    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);
    s->options.on_trouble = on_trouble;
    s->options.user = &troubles;

    assert_int_equal(publish(s, "application/json", "[1,2]"), TD_OK);

    assert_int_equal(s->receipt.last, 9);
    assert_string_equal(td_problem(s->client), "");
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(key_of(s, i, keys[i]), keys[0]);
        assert_string_equal(strstr(fake_request(s->broker, i), "\r\n\r\n"),
                            "\r\n\r\n[1,2]");
    }
    assert_int_equal(strlen(keys[0]), 34);
    assert_int_equal(troubles.n, 3);
    assert_string_equal(troubles.why[1], "409: it is at work");
    assert_string_equal(troubles.why[2], "503: too much");
    assert_in_range(troubles.pause_ms[0], 100, 300);
    assert_in_range(troubles.pause_ms[1], 1000, 1000);
}

/* The broker marks a repeat. If an answer was lost, the repeated post may be of
 * this call: it counts as added; 409 is no lost answer, it says that another is at work. */
TEST(says_if_the_post_was_a_repeat)
{
    static const char replayed[] =
        "application/json\r\nIdempotent-Replayed: true";
    struct stage *s = *state;

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_answer(s->broker, 200, replayed, RECEIPT);
    fake_silence(s->broker);
    fake_answer(s->broker, 200, replayed, RECEIPT);
    fake_answer(s->broker, 409, "application/problem+json\r\nRetry-After: 1",
                "{}");
    fake_answer(s->broker, 200, replayed, RECEIPT);
    fake_broker_start(s->broker);
    s->options.key = "k";

    for (int i = 0; i < 4; i++) {
        assert_int_equal(publish(s, "application/json", "[1]"), TD_OK);
        assert_int_equal(s->receipt.is_repeat, i % 2);
    }
}

/* While it is unknown whether the broker kept the post, td_publish also asks a
 * broker that is away: it may be starting. */
TEST(asks_on_while_the_outcome_is_open)
{
    struct stage *s = *state;
    struct troubles troubles = {.stop_at = 3, .client = s->client};

    fake_silence(s->broker); /* and then it has gone */
    fake_broker_start(s->broker);
    s->options.on_trouble = on_trouble;
    s->options.user = &troubles;

    assert_int_equal(publish(s, "application/json", "[]"), TD_STOPPED);
    assert_int_equal(troubles.n, 3);
}

/* Bounded: no attempt begins after retry_ms. The reason then says that the
 * outcome is open. */
TEST(gives_up_in_time)
{
    struct stage *s = *state;
    struct troubles troubles = {.n = 0};

    fake_silence(s->broker);
    fake_answer(s->broker, 503, "application/problem+json\r\nRetry-After: 9",
                "{\"detail\":\"too much\"}");
    fake_broker_start(s->broker);
    s->options.on_trouble = on_trouble;
    s->options.user = &troubles;

    s->options.retry_ms = 1;
    assert_int_equal(publish(s, "application/json", "[]"), TD_UNREACHABLE);
    assert_non_null(strstr(td_problem(s->client), IN_DOUBT));
    s->options.retry_ms = 8999;
    assert_int_equal(publish(s, "application/json", "[]"), TD_UNREACHABLE);
    assert_string_equal(td_problem(s->client), "503: too much");
    assert_int_equal(troubles.n, 0);
}

/* A refusal concerns the repeat alone: a restarted broker may refuse a post
 * that it kept before. */
TEST(a_refusal_does_not_take_back_what_may_be_kept)
{
    struct stage *s = *state;
    static const unsigned statuses[] = {403, 410};

    for (size_t i = 0; i < 2; i++) {
        fake_silence(s->broker);
        fake_answer(s->broker, statuses[i], "application/problem+json",
                    "{\"detail\":\"no\"}");
    }
    fake_answer(s->broker, 403, "application/problem+json",
                "{\"detail\":\"no\"}");
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/json", "[]"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "403: no" IN_DOUBT);
    assert_int_equal(publish(s, "application/json", "[]"), TD_GONE);
    assert_string_equal(td_problem(s->client), "410: no" IN_DOUBT);
    assert_int_equal(publish(s, "application/json", "[]"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "403: no");
}

/* Without a key a post that the broker may have kept is not sent twice. */
TEST(does_not_repeat_what_may_be_kept_without_a_key)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    fake_answer(s->broker, 504, "text/plain\r\nRetry-After: 1", "");
    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);
    s->options.key = "";

    for (int i = 0; i < 2; i++) {
        assert_int_equal(publish(s, "application/json", "[]"), TD_UNREACHABLE);
        assert_non_null(strstr(td_problem(s->client), IN_DOUBT));
    }
    assert_string_equal(fake_request(s->broker, 2), "");
}

/* td_stop ends a post that waits for its answer. */
TEST(stops)
{
    struct stage *s = *state;

    fake_nothing(s->broker);
    fake_broker_start(s->broker);
    td_stop(s->client);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_STOPPED);
}

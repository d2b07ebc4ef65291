/*
 * publish_test.c - td_publish against a broker that does as it is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/tidings.h"
#include "tests/support/fake_broker.h"

#define RECEIPT                                 \
    "{\"set\":\"news\",\"first\":7,\"last\":9," \
    "\"position\":\"0123456789abcdef-9\","      \
    "\"datetime\":\"2026-01-01T00:00:09.000001Z\"}"

struct stage {
    struct fake_broker *broker;
    struct td_client *client;
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
    return td_publish(s->client, fake_broker_url(s->broker), type, NULL, body,
                      strlen(body), &s->receipt);
}

/* the receipt of a post that is durable. */
static void
gives_the_receipt(void **state)
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
static void
sends_a_large_post_at_once(void **state)
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
static void
needs_no_receipt(void **state)
{
    struct stage *s = *state;
    char url[100] = "";

    fake_answer(s->broker, 200, "application/json", RECEIPT);
    fake_broker_start(s->broker);
    strcat(strcpy(url, fake_broker_url(s->broker)), "/");

    assert_int_equal(
        td_publish(s->client, url, "application/xml", NULL, "<a/>", 4, NULL),
        TD_OK);

    assert_memory_equal(fake_request(s->broker, 0), "POST /sets/news/changes ",
                        24);
}

/* a refusal names the entry and the line. */
static void
tells_which_entry_was_refused(void **state)
{
    struct stage *s = *state;

    fake_answer(s->broker, 422, "application/problem+json",
                "{\"type\":\"about:blank\",\"title\":\"Unprocessable\","
                "\"status\":422,\"detail\":\"loc is not an absolute URI: "
                "\\\"caf\\u00e9\\\"\",\"entry\":3,\"line\":9}");
    fake_answer(s->broker, 400, "application/problem+json",
                "{\"detail\":\"unexpected\\nend\",\"line\":12}");
    fake_answer(s->broker, 415, "application/problem+json",
                "{\"title\":\"Unsupported Media Type\"}");
    fake_answer(s->broker, 403, "text/html", "<h1>no</h1>");
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client),
                        "422: entry 3, line 9: loc is not an absolute URI: "
                        "\"caf\xc3\xa9\"");
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "400: line 12: unexpected end");
    assert_int_equal(publish(s, "image/png", ""), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "415: Unsupported Media Type");
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "403: the broker refused");
}

/* busy or away is not refused. */
static void
tells_when_nobody_can_answer(void **state)
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
    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_UNREACHABLE);
}

/* a post is never sent twice, and never elsewhere. */
static void
follows_no_redirect(void **state)
{
    struct stage *s = *state;

    fake_answer(s->broker, 307, "text/html\r\nLocation: /sets/other/changes",
                "");
    fake_broker_start(s->broker);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_REFUSED);

    assert_memory_equal(td_problem(s->client), "307", 3);
}

/* what cannot be a receipt is not taken for one. */
static void
needs_a_whole_receipt(void **state)
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
static void
malformed_arguments_are_invalid(void **state)
{
    struct stage *s = *state;

    assert_int_equal(
        td_publish(s->client, "news", "text/xml", NULL, "", 0, NULL),
        TD_INVALID);
    assert_int_equal(publish(s, "text/xml\r\nX: y", ""), TD_INVALID);
}

/* td_stop ends a post that waits for its answer. */
static void
stops(void **state)
{
    struct stage *s = *state;

    fake_nothing(s->broker);
    fake_broker_start(s->broker);
    td_stop(s->client);

    assert_int_equal(publish(s, "application/xml", "<a/>"), TD_STOPPED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_stage, clear_stage)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gives_the_receipt),
        TEST(sends_a_large_post_at_once),
        TEST(needs_no_receipt),
        TEST(tells_which_entry_was_refused),
        TEST(tells_when_nobody_can_answer),
        TEST(follows_no_redirect),
        TEST(needs_a_whole_receipt),
        TEST(malformed_arguments_are_invalid),
        TEST(stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * retry_after_test.c - a publisher stays away as long as the broker asks.
 */
#include <string.h>

#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    assert_non_null(strstr(why, "later"));
    *(unsigned *)user = pause_ms;
}

/* The pause after an answer of that status. */
static unsigned
pause_after(unsigned status)
{
    static const char change[] =
        "{\"change\":\"updated\",\"loc\":\"http://example.com/a\"}";
    struct fake_broker *broker = fake_broker_new();
    struct td_client *client = td_open();
    unsigned ms = 0;
    struct td_publisher_options options = {.on_trouble = on_trouble,
                                           .user = &ms};
    struct td_publisher *publisher;
    uint64_t number;

    clock_skip_waits(transfers_none, NULL);
    fake_answer(broker, status, "application/problem+json\r\nRetry-After: 9",
                "{\"detail\":\"later\"}");
    fake_answer(broker, 200, "application/json",
                "{\"set\":\"news\",\"first\":1,\"last\":1,"
                "\"position\":\"0123456789abcdef-1\","
                "\"datetime\":\"2026-01-01T00:00:09.000001Z\"}");
    fake_broker_start(broker);
    assert_int_equal(td_publisher_open(client, fake_broker_url(broker),
                                       &options, &publisher),
                     TD_OK);
    assert_int_equal(
        td_publisher_add(publisher, change, strlen(change), &number), TD_OK);
    assert_int_equal(td_publisher_flush(publisher), TD_OK);
    td_publisher_close(publisher);
    td_close(client);
    fake_broker_free(broker);
    return ms;
}

TEST(a_publisher_waits_as_long_as_the_broker_asks)
{
    static const unsigned statuses[] = {409, 429, 500, 503};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        assert_int_equal(pause_after(statuses[i]), 9000);
}

/*
 * topic_test.c - discovery at servers that never come to an end.
 */
#include "client/websub/topic_discovery.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

#define CHUNKED "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"

struct stage {
    struct fake_broker *server;
    struct td_client *client;
    struct topic_search *search;
    struct problem why;
    bool is_over;
};

static int
begin(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->server = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    *state = s;
    return 0;
}

static int
end(void **state)
{
    struct stage *s = *state;

    td_close(s->client);
    fake_broker_free(s->server);
    free(s);
    return 0;
}

static void
on_found(const struct problem *why, const struct topic *topic, void *user)
{
    struct stage *s = user;

    (void)topic;
    s->why = *why;
    s->is_over = true;
}

/* The server says `answer`, and then nothing, but goes on. */
static void
find(struct stage *s, struct slice answer)
{
    fake_plain(s->server);
    fake_raw(s->server, answer);
    fake_hold(s->server);
    fake_broker_start(s->server);
    s->search = topic_find(s->client, fake_broker_url(s->server), on_found, s);
    assert_non_null(s->search);
}

/* It has said all, and holds the connection. */
static bool
is_at_rest(void *server)
{
    return fake_n_rests(server) == 1;
}

FIXTURE(begin, end);

TEST(a_refusal_is_not_read_to_its_end)
{
    struct stage *s = *state;

    find(s, SLICE("HTTP/1.1 404 Not Found" CHUNKED));
    assert_int_equal(handle_loop_until(s->client->loop, &s->is_over),
                     STATUS_OK);

    assert_int_equal(s->why.rc, STATUS_REFUSED);
    assert_non_null(strstr(s->why.text, "/sets/news: status 404"));
}

TEST(a_refusal_says_when_to_come_again)
{
    struct stage *s = *state;

    find(s, SLICE("HTTP/1.1 503 No\r\nRetry-After: 7" CHUNKED));
    assert_int_equal(handle_loop_until(s->client->loop, &s->is_over),
                     STATUS_OK);

    assert_int_equal(s->why.rc, STATUS_UNREACHABLE);
    assert_int_equal(s->why.retry_after_s, 7);
}

TEST(a_page_that_does_not_end_in_time_is_given_up)
{
    struct stage *s = *state;
    int64_t begun_ms = clock_steady_ms();

    find(s, SLICE("HTTP/1.1 200 OK\r\nContent-Type: text/html" CHUNKED));
    clock_skip_waits(is_at_rest, s->server);
    assert_int_equal(handle_loop_until(s->client->loop, &s->is_over),
                     STATUS_OK);

    assert_int_equal(s->why.rc, STATUS_UNREACHABLE);
    assert_non_null(strstr(s->why.text, "does not come to an end"));
    assert_int_equal(clock_steady_ms() - begun_ms, 60000);
}

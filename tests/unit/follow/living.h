/*
 * living.h - the stage of the tests of one live connection: a server with a
 * script, and a record of everything that was handed over until the end.
 */
#ifndef TESTS_UNIT_FOLLOW_LIVING_H
#define TESTS_UNIT_FOLLOW_LIVING_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/follow/transport.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

struct living {
    struct fake_broker *broker;
    struct td_client *client;
    struct live *live; /* NULL: it has ended */
    struct live_request request;
    char url[256];
    unsigned idle_ms;

    char seen[1024]; /* "one|two|"; of long ones the size: "(70000)|" */
    size_t n_seen;
    size_t enough; /* after so many on_message says so; 0: never */
    size_t look_at, pause_at, free_at; /* living_turn returns there */
    unsigned busy_ms;                  /* that on_message takes */
    bool is_over; /* the loop turns until the end, or one of these */
    bool has_end;
    struct live_end end;
};

/* A server that is not started, and nothing asked yet: by WebSocket, in JSON.
 */
static inline int
living_set(void **state)
{
    struct living *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    s->idle_ms = 60000;
    s->request.transport = TD_WEBSOCKET;
    s->request.idle_ms = &s->idle_ms;
    snprintf(s->url, sizeof(s->url), "%s/stream?after=0",
             fake_broker_url(s->broker));
    *state = s;
    return 0;
}

static inline int
living_clear(void **state)
{
    struct living *s = *state;

    live_free(s->live);
    td_close(s->client);
    fake_broker_free(s->broker);
    free(s);
    return 0;
}

static inline bool
living_on_message(char *bytes, size_t size, void *user)
{
    struct living *s = user;
    size_t used = strlen(s->seen);

    assert_false(s->has_end);
    if (size > 100)
        snprintf(s->seen + used, sizeof(s->seen) - used, "(%zu)|", size);
    else
        snprintf(s->seen + used, sizeof(s->seen) - used, "%.*s|", (int)size,
                 bytes);
    s->n_seen++;
    clock_pass_us(s->busy_ms * INT64_C(1000));
    if (s->n_seen == s->look_at)
        s->is_over = true;
    if (s->n_seen == s->pause_at) {
        live_hold(s->live, true);
        s->is_over = true;
    }
    if (s->n_seen == s->free_at) {
        live_free(s->live);
        s->live = NULL;
        s->is_over = true;
        memset(bytes, ' ', size); /* they are still there */
    }
    return s->n_seen != s->enough;
}

static inline void
living_on_end(const struct live_end *end, void *user)
{
    struct living *s = user;

    assert_false(s->has_end);
    s->end = *end;
    s->has_end = true;
    s->live = NULL;
    s->is_over = true;
}

/* Waits until something is ready on the loop. */
static inline void
living_await_ready(struct living *s)
{
    struct pollfd fd = {.fd = handle_loop_fd(s->client->loop),
                        .events = POLLIN};

    assert_int_equal(poll(&fd, 1, -1), 1);
}

/* Turns the loop until the end, a pause or a look. No time passes, except the
 * pause after which a connection with many messages goes on with them. */
static inline void
living_turn(struct living *s)
{
    s->is_over = false;
    while (!s->is_over) {
        int ms = handle_loop_timeout_ms(s->client->loop);

        if (ms == 1)
            clock_pass_us(1000);
        else if (ms)
            living_await_ready(s);
        assert_int_equal(handle_loop_service(s->client->loop), STATUS_OK);
    }
}

static inline void
living_start(struct living *s)
{
    s->request.url = s->url;
    s->has_end = false;
    s->seen[0] = '\0';
    s->n_seen = 0;
    s->live =
        live_start(s->client, &s->request, living_on_message, living_on_end, s);
    assert_non_null(s->live);
    assert_false(s->has_end);
}

/* Asks, and goes on to the end. */
static inline void
living_run(struct living *s)
{
    living_start(s);
    living_turn(s);
}

/* Turns the loop until nothing is ready any more on it. */
static inline void
living_rest(struct living *s)
{
    for (int i = 0; i < 20; i++)
        assert_int_equal(handle_loop_service(s->client->loop), STATUS_OK);
}

/* Turns the loop until the server has reached its `n`th fake_wait or fake_hold,
 * and has therefore sent everything before it. */
static inline void
living_until_rest(struct living *s, unsigned n)
{
    AWAIT((handle_loop_service(s->client->loop) == STATUS_OK &&
           fake_n_rests(s->broker) >= n));
    living_rest(s);
}

/* Asks a server that comes to a fake_wait before its messages and to another
 * rest behind them: they are all there when the loop turns next. */
static inline void
living_start_at_once(struct living *s)
{
    living_start(s);
    living_until_rest(s, 1);
    fake_go(s->broker);
    AWAIT(fake_n_rests(s->broker) == 2);
}

/* Turns the loop until the server has answered. */
static inline void
living_until_answered(struct living *s)
{
    AWAIT((handle_loop_service(s->client->loop) == STATUS_OK &&
           s->live->is_answered));
    living_rest(s);
}

static inline void
living_pass(struct living *s, unsigned ms)
{
    clock_pass_us(ms * INT64_C(1000));
    living_rest(s);
}

/* After its limit a connection looks once more for data, so much later. */
#define LOOK_MS 10

/* Nothing is waited for: an hour ends nothing. */
static inline void
assert_has_time(struct living *s)
{
    living_pass(s, 3600000);
    living_pass(s, LOOK_MS);
    assert_false(s->has_end);
}

static inline void
assert_end(const struct living *s, enum live_how how, const char *text)
{
    assert_true(s->has_end);
    if (s->end.how != how || strcmp(s->end.why.text, text))
        fail_msg("it ended as %d, \"%s\", not as %d, \"%s\"", s->end.how,
                 s->end.why.text, how, text);
}

/* The same, of a text that libcurl has a part in. */
static inline void
assert_end_says(const struct living *s, enum live_how how, const char *part)
{
    assert_true(s->has_end);
    if (s->end.how != how || !strstr(s->end.why.text, part))
        fail_msg("it ended as %d, \"%s\", not as %d with \"%s\"", s->end.how,
                 s->end.why.text, how, part);
}

/* Asks; hands that over, and ends so. */
static inline void
assert_runs(struct living *s, const char *seen, enum live_how how,
            const char *text)
{
    living_run(s);
    assert_string_equal(s->seen, seen);
    assert_end(s, how, text);
}

static inline void
assert_runs_says(struct living *s, const char *seen, enum live_how how,
                 const char *part)
{
    living_run(s);
    assert_string_equal(s->seen, seen);
    assert_end_says(s, how, part);
}

/* It ends after `ms`, and not before. */
static inline void
assert_ends_after(struct living *s, unsigned ms, enum live_how how,
                  const char *text)
{
    living_pass(s, ms - 1);
    assert_false(s->has_end);
    living_pass(s, 1);
    assert_false(s->has_end);
    living_pass(s, LOOK_MS);
    assert_end(s, how, text);
}

#endif

/*
 * living.h - the stage of the tests of one live connection: a server that says
 * what it is told, and what was handed over of it until the end.
 */
#ifndef TESTS_UNIT_FOLLOW_LIVING_H
#define TESTS_UNIT_FOLLOW_LIVING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/follow/live.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

struct living {
    struct fake_broker *broker;
    struct td_client *client;
    struct live *live;   /* NULL: it has ended */
    struct timer *timer; /* of a test that has one */
    struct live_request request;
    char url[256];
    unsigned idle_ms;

    char seen[1024]; /* "one|two|"; of long ones the size: "(70000)|" */
    size_t n_seen;
    size_t enough; /* after so many on_message says so; 0: never */
    size_t pause_at, free_at;
    unsigned idle_then_ms; /* from the first message on; 0: as before */
    bool goes_on_at_pause; /* the server's fake_wait, too */
    bool is_over;          /* what the loop turns for: the end, or a pause */
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
    timer_free(s->timer);
    td_close(s->client);
    fake_broker_free(s->broker);
    free(s);
    return 0;
}

static inline void
living_go(void *user)
{
    struct living *s = user;

    fake_go(s->broker);
    timer_start(s->timer, s->idle_ms / 4);
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
    if (s->n_seen == 1 && s->idle_then_ms) {
        s->idle_ms = s->idle_then_ms;
        if (s->timer)
            living_go(s);
    }
    if (s->n_seen == s->pause_at) {
        live_pause(s->live);
        s->is_over = true;
        if (s->goes_on_at_pause)
            fake_go(s->broker);
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

/* Turns the loop until the end, or a pause. */
static inline void
living_turn(struct living *s)
{
    s->is_over = false;
    assert_int_equal(loop_until(s->client->loop, &s->is_over), TD_OK);
}

static inline void
living_start(struct living *s)
{
    s->request.url = s->url;
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

/* Asks, and goes on to the end; one fake_wait after the other is let go on, 4
 * in the time that silence may last: from the first message on, if that time
 * counts from there. */
static inline void
living_keep_alive(struct living *s)
{
    s->timer = timer_new(s->client->loop, living_go, s);
    assert_non_null(s->timer);
    if (!s->idle_then_ms)
        living_go(s);
    living_run(s);
}

/* Turns the loop until nothing is ready any more on it. */
static inline void
living_rest(struct living *s)
{
    for (int i = 0; i < 20; i++)
        assert_int_equal(loop_service(s->client->loop), TD_OK);
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

#endif

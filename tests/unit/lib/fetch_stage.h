/*
 * fetch_stage.h - the stage of tests of an HTTP exchange: two sites, and what
 * an exchange on the handle's loop told.
 */
#ifndef TESTS_UNIT_LIB_FETCH_STAGE_H
#define TESTS_UNIT_LIB_FETCH_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/fetch.h"
#include "tests/support/fake_broker.h"
#include "tests/support/site.h"
#include "tests/test.h"

/* Bytes of a body that comes in many pieces. */
#define BIG (1024 * 1024)

struct stage {
    struct td_client *client;
    struct site *site;
    struct site *other;
    struct fetch *fetch;
    struct buf body;
    struct failure why;
    unsigned status;
    char url[300];
    char link[300];
    char etag[100];
    unsigned n_bodies;
    unsigned pause_at; /* body that is the last for now; 0: none */
    unsigned free_at;
    unsigned enough_at;
    bool is_over;
};

static inline int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->client = td_open();
    s->site = site_new();
    s->other = site_new();
    buf_init(&s->body, SIZE_MAX / 2);
    assert_non_null(s->client);
    *state = s;
    return 0;
}

static inline int
clear_stage(void **state)
{
    struct stage *s = *state;

    fetch_free(s->fetch);
    td_close(s->client);
    site_free(s->site);
    site_free(s->other);
    buf_fini(&s->body);
    free(s);
    return 0;
}

static inline bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct stage *s = user;

    assert_int_equal(answer->status, 200);
    buf_add_slice(&s->body, bytes);
    s->n_bodies++;
    if (s->n_bodies == s->free_at) {
        fetch_free(s->fetch);
        s->fetch = NULL;
        s->is_over = true;
    } else if (s->n_bodies == s->pause_at) {
        fetch_pause(s->fetch);
        s->is_over = true;
    }
    return s->n_bodies != s->enough_at;
}

static inline void
on_end(struct fetch_answer *answer, const struct failure *why, void *user)
{
    struct stage *s = user;

    s->fetch = NULL;
    s->why = *why;
    s->status = answer->status;
    snprintf(s->url, sizeof(s->url), "%s", answer->url);
    snprintf(s->link, sizeof(s->link), "%s", answer->link);
    snprintf(s->etag, sizeof(s->etag), "%s", answer->etag);
    buf_add_slice(&s->body, buf_slice(&answer->body));
    s->is_over = true;
}

static inline void
start(struct stage *s, const struct fetch_request *request, bool is_streamed)
{
    s->fetch = fetch_start(s->client, request, is_streamed ? on_body : NULL,
                           on_end, s);
    assert_non_null(s->fetch);
    s->is_over = false;
}

static inline void
turn(struct stage *s)
{
    assert_int_equal(loop_until(s->client->loop, &s->is_over), TD_OK);
    s->is_over = false;
}

static inline char *
big(void)
{
    char *bytes = malloc(BIG);

    assert_non_null(bytes);
    for (size_t i = 0; i < BIG; i++)
        bytes[i] = (char)('a' + i % 23);
    return bytes;
}

/* What is told of a fake broker's one answer, which is `parts` in order. */
static inline void
answer_raw(struct stage *s, struct fake_broker *b,
           struct fetch_request *request, const struct slice *parts, size_t n)
{
    fake_plain(b);
    for (size_t i = 0; i < n; i++)
        fake_raw(b, parts[i]);
    fake_broker_start(b);
    request->url = fake_broker_url(b);
    start(s, request, false);
    turn(s);
    fake_broker_free(b);
}

#endif

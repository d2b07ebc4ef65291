/*
 * fetch_stage.h - the stage of tests of an HTTP exchange: two sites, and the
 * events of an exchange on the handle's loop.
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
    struct problem why;
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

static struct stage s;

static inline int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    s.client = td_open();
    s.site = site_new();
    s.other = site_new();
    buf_init(&s.body, SIZE_MAX / 2);
    assert_non_null(s.client);
    return 0;
}

static inline int
clear_stage(void **state)
{
    (void)state;
    fetch_free(s.fetch);
    td_close(s.client);
    site_free(s.site);
    site_free(s.other);
    buf_fini(&s.body);
    return 0;
}

static inline bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct stage *of = user;

    assert_int_equal(answer->status, 200);
    buf_add_slice(&of->body, bytes);
    of->n_bodies++;
    if (of->n_bodies == of->free_at) {
        fetch_free(of->fetch);
        of->fetch = NULL;
        of->is_over = true;
    } else if (of->n_bodies == of->pause_at) {
        fetch_hold(of->fetch, true);
        of->is_over = true;
    }
    return of->n_bodies != of->enough_at;
}

static inline void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct stage *of = user;

    of->fetch = NULL;
    of->why = *why;
    of->status = answer->status;
    snprintf(of->url, sizeof(of->url), "%s", answer->url);
    snprintf(of->link, sizeof(of->link), "%s", answer->link);
    snprintf(of->etag, sizeof(of->etag), "%s", answer->etag);
    buf_add_slice(&of->body, buf_slice(&answer->body));
    of->is_over = true;
}

static inline void
start_for(struct stage *of, const struct fetch_request *request,
          bool is_streamed)
{
    of->fetch = fetch_start(of->client, request, is_streamed ? on_body : NULL,
                            on_end, of);
    assert_non_null(of->fetch);
    of->is_over = false;
}

static inline void
start(const struct fetch_request *request, bool is_streamed)
{
    start_for(&s, request, is_streamed);
}

static inline void
turn(void)
{
    assert_int_equal(handle_loop_until(s.client->loop, &s.is_over), STATUS_OK);
    s.is_over = false;
}

/* The exchange, until it ends or a callback says otherwise. */
static inline void
run(const struct fetch_request *request, bool is_streamed)
{
    start(request, is_streamed);
    turn();
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

/* Fetches the one answer of a fake broker, which sends `parts` in order. */
static inline void
answer_raw(struct fake_broker *b, struct fetch_request *request,
           const struct slice *parts, size_t n)
{
    fake_plain(b);
    for (size_t i = 0; i < n; i++)
        fake_raw(b, parts[i]);
    fake_broker_start(b);
    request->url = fake_broker_url(b);
    run(request, false);
    fake_broker_free(b);
}

#endif

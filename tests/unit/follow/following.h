/*
 * following.h - the stage of the tests of td_follow: a broker that says what it
 * is told, and what was handed over of it.
 */
#ifndef TESTS_UNIT_FOLLOW_FOLLOWING_H
#define TESTS_UNIT_FOLLOW_FOLLOWING_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/loop.h"
#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/support/history.h"
#include "tests/test.h"

#define EPOCH       "0123456789abcdef"
#define OTHER_EPOCH "fedcba9876543210"

/* What a test has: a broker to be told, and what on_message saw. */
struct stage {
    struct fake_broker *broker;
    struct history history;
    struct history other; /* of a log made anew */
    struct td_client *client;
    struct td_follow_options options;
    uint64_t until;  /* on_message ends it with this entry */
    char seen[1024]; /* "1 2 3 h " */
    char last_text[1024];
    char position[64];
    char digest[128];
    unsigned troubles;
    char trouble[512];
    int64_t pauses_until_ms; /* from on_trouble */
    unsigned silences;       /* connections that the broker only holds */
    bool starts_on_trouble;
    unsigned busy_ms; /* how long on_message takes for the first change */
    sem_t heard;
};

static inline int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    history_init(&s->history, EPOCH);
    history_init(&s->other, OTHER_EPOCH);
    s->options.transports = TD_WEBSOCKET; /* the others: follower_test.c */
    sem_init(&s->heard, 0, 0);
    *state = s;
    return 0;
}

static inline int
clear_stage(void **state)
{
    struct stage *s = *state;

    clock_skip_waits(NULL, NULL);
    td_close(s->client);
    fake_broker_free(s->broker);
    history_fini(&s->history);
    history_fini(&s->other);
    sem_destroy(&s->heard);
    free(s);
    return 0;
}

static inline int
on_message(const struct td_message *message, void *user)
{
    struct stage *s = user;
    size_t used = strlen(s->seen);

    assert_string_equal(message->set, "news");
    if (!message->n_changes) {
        if (!s->options.n_filters)
            assert_int_equal(message->after, message->last);
        snprintf(s->seen + used, sizeof(s->seen) - used, "h ");
    }
    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *change = &message->changes[i];

        if (!s->options.n_filters)
            assert_int_equal(change->seq, message->after + 1 + i);
        assert_int_equal(strlen(change->text), change->text_size);
        snprintf(s->last_text, sizeof(s->last_text), "%s", change->text);
        used = strlen(s->seen);
        snprintf(s->seen + used, sizeof(s->seen) - used, "%llu ",
                 (unsigned long long)change->seq);
    }
    snprintf(s->position, sizeof(s->position), "%s", message->position);
    snprintf(s->digest, sizeof(s->digest), "%s",
             message->digest ? message->digest : "");
    sem_post(&s->heard);
    if (message->last == 1 && s->busy_ms) {
        fake_go(s->broker);
        clock_pass_us(s->busy_ms * INT64_C(1000));
    }
    return s->until && message->n_changes && message->last >= s->until;
}

static inline void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct stage *s = user;

    s->pauses_until_ms = loop_now_ms() + pause_ms;
    if (++s->troubles > 5)
        td_stop(s->client); /* none that should be has so many */
    snprintf(s->trouble, sizeof(s->trouble), "%s", why);
    if (s->starts_on_trouble)
        fake_broker_start(s->broker);
    s->starts_on_trouble = false;
}

/* Only time brings it on: it pauses, or the broker holds one connection more
 * than there were troubles. */
static inline bool
only_waits(void *user)
{
    struct stage *s = user;

    return loop_now_ms() < s->pauses_until_ms ||
           (s->troubles < s->silences && fake_n_rests(s->broker) > s->troubles);
}

static inline enum td_status
follow(struct stage *s, const char *after, enum td_form form, uint64_t until)
{
    s->options.after = after;
    s->options.form = form;
    s->options.on_trouble = on_trouble;
    s->until = until;
    s->pauses_until_ms = 0;
    clock_skip_waits(only_waits, s);
    return td_follow(s->client, fake_broker_url(s->broker), &s->options,
                     on_message, s);
}

static inline struct slice
json(struct stage *s, uint64_t after, uint64_t last)
{
    return history_json(&s->history, after, last);
}

static inline struct slice
xml(struct stage *s, uint64_t after, uint64_t last)
{
    return history_xml(&s->history, after, last);
}

/* Asks for the stream at `position` was connection `i`? */
static inline void
assert_asked(struct stage *s, size_t i, const char *line)
{
    const char *request = fake_request(s->broker, i);

    if (strncmp(request, line, strlen(line)))
        fail_msg("connection %zu asked \"%.120s\", not \"%s\"", i, request,
                 line);
}

#endif

/*
 * engine.h - for tests of the delivery engine: topics, bodies and deliveries as
 * they are, on a log as it is; the caller and hub.db are doubles, and the clock
 * is the test's. Nothing happens but in turns(), finish() and pass(), so every
 * state can be looked at.
 *
 *     engine_open -> subscribe -> post -> turns: calls are given their turn,
 *     ranges are kept, what is ready is `sent` -> finish(status) -> ...
 */
#ifndef TESTS_UNIT_HUB_ENGINE_H
#define TESTS_UNIT_HUB_ENGINE_H

#include <string.h>

#include "tests/unit/hub/doubles.h"

/* Turns */

static inline size_t
n_with_turn(void)
{
    size_t n = 0;

    for (size_t i = 0; i < e.n_calls; i++)
        n += e.calls[i].state != WAITS;
    return n;
}

/* Gives its turn to the first that waits; false: none does, or there is no
 * room. */
static inline bool
give_turn(void)
{
    for (size_t i = 0; i < e.n_calls; i++) {
        struct call *call = e.calls[i].call;
        enum call_turn turn;

        if (e.calls[i].state != WAITS)
            continue;
        if (n_with_turn() >= e.connections)
            return false;
        e.calls[i].state = HAS_TURN;
        turn = call->prepare ? call->prepare(call) : CALL_READY;
        if (turn == CALL_READY)
            send_call(call);
        else if (turn == CALL_NOT)
            let_go(call);
        return true;
    }
    return false;
}

/* Ends a turn as hub.c does. What was sent before its range was kept would be
 * sent again in other bytes after a crash. */
static inline void
end_turn(void)
{
    if (e.disk_is_full && e.n_written > 0) {
        e.n_written = 0;
        deliver_unkept(&e.hub);
        return;
    }
    memcpy(&e.kept[e.n_kept], e.written, e.n_written * sizeof(e.kept[0]));
    e.n_kept += e.n_written;
    e.n_written = 0;
    deliver_turn(&e.hub);
}

static inline void
turns(void)
{
    bool is_busy = true;

    while (is_busy) {
        is_busy = false;
        if (atomic_exchange(&e.n_wakes, 0) > 0) {
            deliver_wake(&e.hub);
            is_busy = true;
        }
        while (give_turn())
            is_busy = true;
        end_turn();
    }
}

static inline void
run_jobs(void)
{
    while (e.n_jobs > 0) {
        struct job *job = e.jobs[0];

        memmove(e.jobs, e.jobs + 1, --e.n_jobs * sizeof(e.jobs[0]));
        job->work(job);
        job->done(job);
        turns();
    }
}

/* Lets time pass, until the next alarm at most; rings what is due. */
static inline void
ring_until(int64_t end_us)
{
    for (;;) {
        struct alarm *first = NULL;

        for (size_t i = 0; i < e.n_alarms; i++)
            if (!first || e.alarms[i]->at_us < first->at_us)
                first = e.alarms[i];
        if (!first || first->at_us > end_us)
            break;
        if (first->at_us > e.now_us)
            e.now_us = first->at_us;
        __wrap_caller_clear_alarm(NULL, first);
        first->ring(first);
        turns();
    }
    e.now_us = end_us;
}

static inline void
pass(int64_t us)
{
    ring_until(e.now_us + us);
}

/* When the next alarm rings, from now. */
static inline int64_t
next_alarm(void)
{
    int64_t at_us = INT64_MAX;

    for (size_t i = 0; i < e.n_alarms; i++)
        if (e.alarms[i]->at_us < at_us)
            at_us = e.alarms[i]->at_us;
    assert_true(at_us != INT64_MAX);
    return at_us - e.now_us;
}

/* Answers */

static inline struct call *
call_of(const struct subscription *s)
{
    for (size_t i = 0; i < e.n_calls; i++)
        if (e.calls[i].state == UNDER_WAY &&
            e.calls[i].call->url == s->callback)
            return e.calls[i].call;
    fail_msg("nothing is under way to %s", s->callback);
    return NULL;
}

static inline bool
is_under_way(const struct subscription *s)
{
    for (size_t i = 0; i < e.n_calls; i++)
        if (e.calls[i].state == UNDER_WAY &&
            e.calls[i].call->url == s->callback)
            return true;
    return false;
}

static inline void
end_call(struct call *call)
{
    let_go(call);
    call->done(call);
    turns();
}

static inline void
finish_after(const struct subscription *s, unsigned status, int64_t retry_us)
{
    struct call *call = call_of(s);

    call->failure = CALL_ANSWERED;
    call->status = status;
    call->retry_after_us = retry_us;
    end_call(call);
}

static inline void
finish(const struct subscription *s, unsigned status)
{
    finish_after(s, status, 0);
}

static inline void
break_off(const struct subscription *s, enum call_failure failure,
          const char *why)
{
    struct call *call = call_of(s);

    call->failure = failure;
    call->status = 0;
    snprintf(call->why, sizeof(call->why), "%s", why);
    end_call(call);
}

/* Life */

static inline int64_t
now_us(void)
{
    return e.now_us;
}

/* Before engine_start the options may be changed. */
static inline void
engine_configure(void **state)
{
    memset(&e, 0, sizeof(e));
    e.now_us = 1000000 * SECOND;
    e.connections = 1000;
    e.sent = calloc(SENT_MAX, sizeof(*e.sent));
    assert_non_null(e.sent);
    sets_configure(&e.sets, tempdir_path(state));
}

static inline void
engine_start(void)
{
    struct problem why = {""};

    clock_replace_steady(now_us); /* while nobody else asks */
    sets_open(&e.sets);
    e.hub.registry = e.sets.registry;
    e.hub.config = &e.sets.config;
    atomic_store(&e.hub.woken, (struct caller *)&e); /* only told of */
    list_init(&e.hub.topics);
    list_init(&e.hub.relays);
    list_init(&e.hub.moved);
    assert_int_equal(deliver_open(&e.hub, &why), STATUS_OK);
}

static inline void
engine_open(void **state)
{
    engine_configure(state);
    engine_start();
}

static inline void
engine_stop(void)
{
    while (!list_is_empty(&e.hub.topics)) {
        struct topic *topic = list_entry(e.hub.topics.next, struct topic, node);

        while (!list_is_empty(&topic->subscriptions)) {
            bool is_last =
                topic->subscriptions.next->next == &topic->subscriptions;

            __wrap_subscription_end(list_entry(topic->subscriptions.next,
                                               struct subscription, of_topic),
                                    END_DELETED);
            if (is_last)
                break;
        }
    }
    while (e.n_jobs > 0) {
        struct job *job = e.jobs[--e.n_jobs];

        job->work(job);
        job->done(job);
    }
    deliver_close(&e.hub);
    sets_close(&e.sets);
    clock_replace_steady(NULL);
}

static inline void
engine_close(void)
{
    engine_stop();
    for (size_t i = 0; i < e.n_sent; i++)
        buf_fini(&e.sent[i].body);
    free(e.sent);
}

static inline struct topic *
topic_for(enum topic_kind kind, const char *name)
{
    struct topic *topic;
    struct problem why = {""};

    if (topic_of_set(&e.hub, kind, sets_find(&e.sets, name), &topic, &why))
        fail_msg("%s", why.text);
    return topic;
}

/* One that has not begun. */
static inline struct subscription *
subscription_at(struct topic *topic, const char *callback, uint64_t after)
{
    struct subscription *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->hub = &e.hub;
    s->id = ++e.last_id;
    s->topic = topic;
    s->callback = strdup(callback);
    s->created_us = clock_now_us();
    s->lease_end_us = INT64_MAX;
    s->after = s->reached = after;
    list_init(&s->node);
    list_init(&s->moved);
    list_append(&topic->subscriptions, &s->of_topic);
    return s;
}

static inline struct subscription *
subscribe(const char *name, const char *callback, uint64_t after)
{
    struct subscription *s =
        subscription_at(topic_for(TOPIC_CHANGES, name), callback, after);

    deliver_begin(s);
    return s;
}

static inline void
set_filter(struct subscription *s, const char *text)
{
    struct filter filter;

    assert_int_equal(filter_read(&filter, slice_of(text), NULL), STATUS_OK);
    filters_leave(s->filter);
    assert_int_equal(filters_enter(registry_filters(e.sets.registry), &filter,
                                   &s->filter, NULL),
                     STATUS_OK);
}

/* What was sent */

static inline const struct sent *
last_sent(void)
{
    assert_true(e.n_sent > 0);
    return &e.sent[e.n_sent - 1];
}

/* The value of a header; "": none. In a buffer of its own until the next but
 * three. */
static inline const char *
header(const struct sent *sent, const char *name)
{
    static char values[4][2048];
    static unsigned n;
    char *value = values[n++ % 4];
    char line[64];
    const char *at;

    snprintf(line, sizeof(line), "%s: ", name);
    at = strstr(sent->headers, line);
    value[0] = '\0';
    if (at)
        snprintf(value, sizeof(values[0]), "%.*s",
                 (int)strcspn(at + strlen(line), "\n"), at + strlen(line));
    return value;
}

/* It covers (after, last]. */
static inline void
assert_sent(const struct sent *sent, uint64_t after, uint64_t last)
{
    struct received r = receive(&sent->body, MESSAGE_XML);

    assert_int_equal(r.coverage.after, after);
    assert_int_equal(r.coverage.last, last);
}

/* The range was kept before it went out. */
static inline void
assert_kept(const struct subscription *s, uint64_t after, uint64_t last)
{
    for (size_t i = 0; i < e.n_kept; i++)
        if (e.kept[i].id == s->id && e.kept[i].after == after &&
            e.kept[i].last == last)
            return;
    fail_msg("the range is not in hub.db");
}

#endif

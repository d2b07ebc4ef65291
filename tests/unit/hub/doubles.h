/*
 * doubles.h - what stands in for the caller, hub.db, relays and the end of a
 * subscription in tests of the delivery engine (engine.h). Instead of the
 * functions, by the linker's --wrap: the tests' CMakeLists.txt has the list.
 */
#ifndef TESTS_UNIT_HUB_DOUBLES_H
#define TESTS_UNIT_HUB_DOUBLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/base/clock.h"
#include "broker/hub/attempt.h"
#include "broker/hub/deliver.h"
#include "broker/hub/inside.h"
#include "broker/hub/relay.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/unit/sets/messages.h"

#define SECOND    ((int64_t)1000000)
#define CALLS_MAX 4096
#define SENT_MAX  4096

enum call_state { WAITS, HAS_TURN, UNDER_WAY };

struct held_call {
    struct call *call;
    enum call_state state;
};

/* What went out. */
struct sent {
    struct subscription *s;
    struct call *call;
    char headers[4096]; /* one a line */
    struct buf body;
    const char *data; /* the engine's own: who shares it */
    bool is_suspect;
};

/* A range as hub.db has it. */
struct kept_range {
    uint64_t id, after, last;
};

static struct engine {
    struct sets sets;
    struct hub hub;
    _Atomic int64_t now_us; /* the log asks, too */
    unsigned connections;   /* turns that the caller gives at once */

    struct held_call calls[CALLS_MAX];
    size_t n_calls;
    struct alarm *alarms[CALLS_MAX];
    size_t n_alarms;
    struct job *jobs[16];
    size_t n_jobs, n_jobs_made;
    atomic_uint n_wakes;

    struct kept_range written[CALLS_MAX], kept[CALLS_MAX];
    size_t n_written, n_kept;
    bool disk_is_full;

    struct sent *sent;
    size_t n_sent;
    uint64_t last_id;
    unsigned n_ended;
    enum subscription_end how;

    struct relay relay;
    const char *documents[8];
} e;

/* The caller */

void __wrap_caller_start(struct caller *caller, struct call *call);
void __wrap_caller_go(struct caller *caller, struct call *call, bool ready);
void __wrap_caller_cancel(struct caller *caller, struct call *call);
void __wrap_caller_set_alarm(struct caller *caller, struct alarm *alarm,
                             int64_t at_us);
void __wrap_caller_clear_alarm(struct caller *caller, struct alarm *alarm);
void __wrap_caller_work(struct caller *caller, struct job *job);
void __wrap_caller_wake(struct caller *caller);
void __wrap_records_range(struct records *r, uint64_t id, uint64_t after,
                          uint64_t range_last);
void __wrap_subscription_end(struct subscription *s, enum subscription_end how);
struct relay *__wrap_relay_of_topic(struct hub *hub, struct slice url);
enum status __wrap_relay_read(struct relay *relay, uint64_t after,
                              struct buf *to, const char **content_type,
                              struct problem *why);

void
__wrap_caller_start(struct caller *caller, struct call *call)
{
    (void)caller;
    assert_true(e.n_calls < CALLS_MAX);
    for (size_t i = 0; i < e.n_calls; i++)
        assert_ptr_not_equal(e.calls[i].call, call);
    e.calls[e.n_calls++] = (struct held_call){call, WAITS};
}

static inline struct held_call *
held(const struct call *call)
{
    for (size_t i = 0; i < e.n_calls; i++)
        if (e.calls[i].call == call)
            return &e.calls[i];
    fail_msg("the caller does not have this call");
    return NULL;
}

static inline void
let_go(const struct call *call)
{
    struct held_call *h = held(call);

    e.n_calls--;
    memmove(h, h + 1, (size_t)(&e.calls[e.n_calls] - h) * sizeof(*h));
}

/* W-093: no two of one subscription at a time. */
static inline void
send_call(struct call *call)
{
    struct sent *sent = &e.sent[e.n_sent];
    struct subscription *s = NULL;
    size_t size = 0;

    assert_true(e.n_sent < SENT_MAX);
    for (struct list *t = e.hub.topics.next; t != &e.hub.topics; t = t->next) {
        struct topic *topic = list_entry(t, struct topic, node);

        for (struct list *n = topic->subscriptions.next;
             n != &topic->subscriptions; n = n->next) {
            struct subscription *one =
                list_entry(n, struct subscription, of_topic);

            if (one->callback == call->url)
                s = one;
        }
    }
    assert_non_null(s);
    for (size_t i = 0; i < e.n_calls; i++)
        if (e.calls[i].state == UNDER_WAY)
            assert_ptr_not_equal(e.calls[i].call->url, call->url);
    for (const char *const *h = call->headers; *h; h++)
        size += (size_t)snprintf(sent->headers + size,
                                 sizeof(sent->headers) - size, "%s\n", *h);
    sent->s = s;
    sent->call = call;
    sent->is_suspect = call->is_suspect;
    sent->data = call->body.data;
    buf_init(&sent->body, SIZE_MAX);
    buf_add_slice(&sent->body, call->body);
    e.n_sent++;
    held(call)->state = UNDER_WAY;
}

void
__wrap_caller_go(struct caller *caller, struct call *call, bool ready)
{
    (void)caller;
    assert_int_equal(held(call)->state, HAS_TURN);
    if (ready)
        send_call(call);
    else
        let_go(call);
}

void
__wrap_caller_cancel(struct caller *caller, struct call *call)
{
    (void)caller;
    let_go(call);
}

void
__wrap_caller_clear_alarm(struct caller *caller, struct alarm *alarm)
{
    (void)caller;
    for (size_t i = 0; i < e.n_alarms; i++)
        if (e.alarms[i] == alarm)
            e.alarms[i] = e.alarms[--e.n_alarms];
}

void
__wrap_caller_set_alarm(struct caller *caller, struct alarm *alarm,
                        int64_t at_us)
{
    __wrap_caller_clear_alarm(caller, alarm);
    alarm->at_us = at_us;
    e.alarms[e.n_alarms++] = alarm;
}

void
__wrap_caller_work(struct caller *caller, struct job *job)
{
    (void)caller;
    e.jobs[e.n_jobs++] = job;
    e.n_jobs_made++;
}

/* Also on the log's thread. */
void
__wrap_caller_wake(struct caller *caller)
{
    (void)caller;
    atomic_fetch_add(&e.n_wakes, 1);
}

/* hub.db */

void
__wrap_records_range(struct records *r, uint64_t id, uint64_t after,
                     uint64_t range_last)
{
    (void)r;
    e.written[e.n_written++] = (struct kept_range){id, after, range_last};
}

/* As subscription.c does it. */
void
__wrap_subscription_end(struct subscription *s, enum subscription_end how)
{
    struct topic *topic = s->topic;

    e.n_ended++;
    e.how = how;
    deliver_cut(s);
    list_remove(&s->of_topic);
    list_remove(&s->moved);
    signer_free(s->signer);
    filters_leave(s->filter);
    free(s->callback);
    free(s);
    topic_release(topic);
}

struct relay *
__wrap_relay_of_topic(struct hub *hub, struct slice url)
{
    (void)hub;
    return e.relay.topic_url && slice_is(url, e.relay.topic_url) ? &e.relay
                                                                 : NULL;
}

enum status
__wrap_relay_read(struct relay *relay, uint64_t after, struct buf *to,
                  const char **content_type, struct problem *why)
{
    if (after < relay->earliest)
        return problem(why, STATUS_GONE, "no longer kept");
    if (after < relay->last)
        buf_add_text(to, e.documents[after]);
    *content_type = "text/plain; charset=utf-8";
    return STATUS_OK;
}

#endif

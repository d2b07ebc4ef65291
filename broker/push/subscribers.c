#include "broker/push/subscribers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/response.h"
#include "broker/net/stream.h"
#include "broker/push/subscriber.h"

/* Serving a crowd costs a send each, however small the message. After a round
 * that took longer than GATHER_FROM_US, commits gather for as long again, at
 * most for GATHER_MAX_US, and go out together: half of the thread's time stays
 * for others. */
#define GATHER_FROM_US 500
#define GATHER_MAX_US  5000

struct push {
    struct registry *registry;
    unsigned n_threads;
    struct push_thread threads[];
};

/* Counts connected clients for the metrics and the set's description. */
static void
count_subscriber(struct subscriber *s, int n)
{
    size_t transport = transports_number(s->transport);

    metrics_add_label(METRIC_SUBSCRIBERS, transport, n);
    atomic_fetch_add_explicit(&s->place->set->subscribers[transport],
                              (unsigned)n, memory_order_relaxed);
}

static void
on_loaded(struct shared_messages *messages, const struct shared_loaded *loaded)
{
    struct shared_message *frame = loaded->message;

    if (frame)
        shared_messages_adopt(messages, frame);
    while (!list_is_empty(loaded->waiters)) {
        struct subscriber *s =
            list_entry(loaded->waiters->next, struct subscriber, node);

        list_remove(&s->node);
        if (!frame) {
            subscriber_close_failed(s, loaded->status);
        } else {
            subscriber_give(s, frame);
            subscriber_advance(s);
        }
    }
    if (frame)
        shared_messages_settle(messages, frame);
}

static void
work_on_pool(struct shared_messages *messages, struct job *job)
{
    struct push_thread *t = list_entry(messages, struct push_thread, messages);

    service_work(t->places.service, job);
}

static bool
is_stopping(struct shared_messages *messages)
{
    (void)messages;
    return false; /* the service ends when its streams have ended */
}

static const struct shared_calls calls = {
    .part = "push",
    .make = frame_make,
    .work = work_on_pool,
    .is_stopping = is_stopping,
    .loaded = on_loaded,
};

/* Sends the news to the subscribers that waited at the head. */
static void
serve_waiting(struct place *p)
{
    struct list all;

    list_init(&all);
    list_move(&all, &p->waiting);
    while (!list_is_empty(&all)) {
        struct subscriber *s = list_entry(all.next, struct subscriber, node);

        list_remove(&s->node);
        if (subscriber_is_at_head(s)) {
            list_append(&p->waiting, &s->node);
        } else {
            s->state = WRITING;
            subscriber_advance(s);
        }
    }
}

/* Closes all subscribers of a set that has ended, wherever they are in it. This
 * is rare, so it may look at all subscribers of the thread. */
static void
serve_removal(struct push_thread *t, const struct place *p)
{
    struct list *node, *next;

    list_foreach (node, next, &t->idle) {
        struct subscriber *s = list_entry(node, struct subscriber, idle_node);

        if (s->place == p)
            subscriber_close(s, CLOSE_SET_REMOVED);
    }
}

void
push_on_wake(struct push *push, struct service *service)
{
    struct push_thread *t = &push->threads[service_number(service)];
    int64_t now_us = clock_steady_us(), cost_us;
    struct place *p;

    if (now_us < t->gather_until_us) {
        service_wake_later(service, t->gather_until_us - now_us);
        return;
    }
    watcher_take(&t->places.watcher);
    while ((p = places_next(&t->places))) {
        if (p->is_removed)
            serve_removal(t, p);
        else
            serve_waiting(p);
        polls_serve(&t->polls, p);
    }
    cost_us = clock_steady_us() - now_us;
    if (cost_us >= GATHER_FROM_US)
        t->gather_until_us =
            now_us + cost_us +
            (cost_us < GATHER_MAX_US ? cost_us : GATHER_MAX_US);
    polls_go_on(&t->polls, service);
}

/* Heartbeats: one frame per set, transport and tick for all subscribers at the
 * head. */

static void
send_heartbeat(struct subscriber *s)
{
    struct place *p = s->place;
    struct shared_messages *messages = &s->thread->messages;
    struct shared_message **shared =
        &p->heartbeat[transports_number(s->transport)];
    const struct shared_wish wish = {
        .channel = frame_channel(p->set, s->transport, &s->thread->deflater),
        .after = s->after,
        .upto = UINT64_MAX,
        .reached = s->reached,
        .is_heartbeat = true,
    };
    uint64_t last;

    if (*shared && ((*shared)->wish.after != s->after ||
                    (*shared)->wish.reached != s->reached)) {
        shared_messages_settle(messages, *shared);
        *shared = NULL;
    }
    if (!*shared) {
        if (shared_messages_make(messages, shared, &wish, &last, NULL)) {
            /* The head has moved, so news is coming, but perhaps none that
             * passes the filter; the end of the last message may be on a
             * disk. */
            s->is_due = s->filter != NULL;
            if (s->is_due) {
                list_remove(&s->node);
                s->state = WRITING;
                subscriber_advance(s);
            }
            return;
        }
        shared_messages_adopt(messages, *shared);
    }
    list_remove(&s->node);
    subscriber_give(s, *shared);
    subscriber_advance(s);
}

static void
look_at_lags(struct push_thread *t, int64_t now_us)
{
    struct list *node, *next;

    if (!lags_begin(&t->lags, now_us))
        return;
    list_foreach (node, next, &t->idle) {
        struct subscriber *s = list_entry(node, struct subscriber, idle_node);

        lags_add(&t->lags, s->transport,
                 subscriber_is_at_head(s) ? 0 : s->place->last - s->after);
    }
    lags_end(&t->lags);
}

void
push_measure(struct push *push)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        struct lag found = {0, 0};

        for (unsigned n = 0; n < push->n_threads; n++)
            lags_collect(&push->threads[n].lags, i, &found);
        metrics_set_label(METRIC_LAG, i, (int64_t)found.sum);
        metrics_set_label(METRIC_LAG_MAX, i, (int64_t)found.max);
    }
}

void
push_on_tick(struct push *push, struct service *service)
{
    struct push_thread *t = &push->threads[service_number(service)];
    int64_t now_us = clock_steady_us();
    int64_t interval_us = registry_config(push->registry)->heartbeat_us;

    look_at_lags(t, now_us);
    places_new_tick(&t->places);
    while (!list_is_empty(&t->idle)) {
        struct subscriber *s =
            list_entry(t->idle.next, struct subscriber, idle_node);

        if (now_us - s->last_sent_us < interval_us)
            break;
        subscriber_sent(
            s, now_us); /* also if it cannot be sent to: asked again later */
        if (s->state == WAITING)
            send_heartbeat(s);
        else if (s->filter) /* it may be passing over entries */
            s->is_due = true;
    }
}

/* Connections */

static void
on_open(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    s->stream = stream;
    s->opened_us = s->last_sent_us = clock_steady_us();
    list_append(&s->thread->idle, &s->idle_node);
    if (s->is_gone) {
        subscriber_close_gone(s);
    } else if (s->thread->is_ending) {
        subscriber_close(s, CLOSE_GOING_AWAY);
    } else if (s->place->is_removed) {
        subscriber_close(s, CLOSE_SET_REMOVED);
    } else {
        s->state = WRITING;
        subscriber_advance(s);
    }
}

static void
on_room(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    (void)stream;
    if (s->state == WRITING) {
        if (!s->frame && !s->close_code && s->is_greeted && !s->upto &&
            subscriber_is_at_head(s)) {
            s->state = WAITING;
            list_append(&s->place->waiting, &s->node);
            return;
        }
        subscriber_advance(s);
    }
}

static void
on_gone(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    (void)stream;
    list_remove(&s->node);
    list_remove(&s->idle_node);
    subscriber_drop_frame(s);
    filters_leave(s->filter);
    count_subscriber(s, -1);
    places_leave(s->place);
    free(s);
}

static const struct stream_handlers stream_handlers = {
    .on_open = on_open,
    .on_room = on_room,
    .on_gone = on_gone,
};

void
push_accept(struct push *push, struct request *rq, const struct push_wish *wish)
{
    struct service *service = request_service(rq);
    struct push_thread *t = &push->threads[service_number(service)];
    struct subscriber *s = calloc(1, sizeof(*s));

    if (s)
        s->place = places_enter(&t->places, service, wish->set);
    if (!s || !s->place) {
        struct problem why = PROBLEM_MEMORY;

        free(s);
        filters_leave(wish->filter);
        request_answer_problem(rq, 503, &why, NULL, NULL);
        return;
    }
    s->thread = t;
    list_init(&s->node);
    list_init(&s->idle_node);
    s->transport = wish->transport;
    s->after = s->reached = wish->after;
    s->filter = wish->filter;
    s->has_since = wish->has_since;
    s->since_us = wish->since_us;
    s->is_gone = wish->is_gone;
    count_subscriber(s, 1);
    s->transport->accept(rq, &wish->terms, &stream_handlers, s);
}

bool
push_wait(struct push *push, struct request *rq, const struct poll_wish *wish)
{
    struct push_thread *t = &push->threads[service_number(request_service(rq))];

    return polls_wait(&t->polls, &t->places, rq, wish);
}

static void
say_farewell(struct task *task)
{
    struct push_thread *t = list_entry(task, struct push_thread, farewell);
    struct list *node, *next;

    t->is_ending = true;
    list_foreach (node, next, &t->idle) {
        struct subscriber *s = list_entry(node, struct subscriber, idle_node);

        subscriber_close(s, CLOSE_GOING_AWAY);
    }
    polls_end(&t->polls, t->places.service);
}

void
push_farewell(struct push *push, struct server *server)
{
    for (unsigned i = 0; i < push->n_threads; i++) {
        push->threads[i].farewell.run = say_farewell;
        service_post(server_service(server, i), &push->threads[i].farewell);
    }
}

enum status
push_open(struct push **result, struct registry *registry, unsigned threads,
          struct problem *why)
{
    struct push *push =
        calloc(1, sizeof(*push) + threads * sizeof(push->threads[0]));

    if (!push)
        return problem_memory(why);
    push->registry = registry;
    push->n_threads = threads;
    for (size_t i = 0; i < TRANSPORTS; i++)
        metrics_name(LABEL_TRANSPORT, i, transports_label(i));
    for (unsigned i = 0; i < threads; i++) {
        struct push_thread *t = &push->threads[i];

        shared_messages_init(&t->messages, &calls, SIZE_MAX);
        deflater_init(&t->deflater);
        places_init(&t->places, &t->messages);
        polls_init(&t->polls);
        list_init(&t->idle);
    }
    *result = push;
    return STATUS_OK;
}

void
push_close(struct push *push)
{
    if (!push)
        return;
    for (unsigned i = 0; i < push->n_threads; i++) {
        shared_messages_fini(&push->threads[i].messages);
        deflater_fini(&push->threads[i].deflater);
    }
    free(push);
}

#include "broker/push/subscribers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/response.h"
#include "broker/net/stream.h"
#include "broker/push/frames.h"
#include "broker/push/lags.h"
#include "broker/push/places.h"
#include "broker/push/reads.h"
#include "broker/sets/positions.h"

/* Most bytes of what is told with a position that is gone. */
#define MEMBERS_MAX 4096

/* Bytes of frames per thread above which a subscriber that cannot send lets go
 * of its frame and has it made again later. */
#define FRAMES_BUDGET ((size_t)16 << 20)

/* Serving a crowd costs a send each, however much it says. After a round that
 * took longer than the first, commits gather for as long again, at most for the
 * second, and go out together: half of the thread's time stays for others. */
#define GATHER_FROM_US 500
#define GATHER_MAX_US  5000

enum state {
    READING, /* its frame is being made; in that read's list */
    WRITING, /* has a frame, or is to get one when there is room */
    WAITING, /* at the head; in its set's waiting list */
    CLOSING
};

struct subscriber {
    struct list node;      /* see state */
    struct list idle_node; /* in the thread's idle list, by last_sent_us */
    struct push_thread *thread;
    struct place *place;
    struct stream *stream;
    const struct transport *transport;
    struct frame *frame; /* being sent */
    size_t offset;       /* bytes of it that were handed to the stream */
    uint64_t after;      /* what was sent whole covers up to this entry */
    uint64_t reached;    /* beyond it, up to this one, nothing passes */
    struct filter_class *filter; /* or NULL */
    int64_t since_us;            /* where it starts, if has_since */
    uint64_t upto;               /* after letting go: the frame ended here */
    size_t frame_size;           /* and had this size */
    int64_t opened_us;
    int64_t last_sent_us;
    enum state state;
    bool is_greeted; /* the first heartbeat was made */
    bool is_gone;    /* the position that it asked for cannot be served */
    bool has_since;  /* until it is greeted */
    bool is_due;     /* gets a heartbeat next: it has long got nothing */
};

struct push_thread {
    struct places places;
    struct reads reads;
    struct frames frames;
    struct polls polls;
    struct list idle; /* of subscribers: least recently sent to first */
    struct lags lags;
    int64_t gather_until_us;
    struct task farewell;
    bool is_ending;
};

struct push {
    struct registry *registry;
    unsigned n_threads;
    struct push_thread threads[];
};

/* Who is connected, for the metrics and the set's description. */
static void
count(struct subscriber *s, int n)
{
    size_t transport = transports_number(s->transport);

    metrics_add_label(METRIC_SUBSCRIBERS, transport, n);
    atomic_fetch_add_explicit(&s->place->set->subscribers[transport],
                              (unsigned)n, memory_order_relaxed);
}

/* Sending */

static void
close_telling(struct subscriber *s, unsigned code, const char *reason,
              const char *members)
{
    const struct ending ending = {code, reason, members, s->offset > 0};

    list_remove(&s->node);
    s->state = CLOSING;
    s->transport->close(s->stream, &ending);
}

static void
close_with(struct subscriber *s, unsigned code, const char *reason)
{
    close_telling(s, code, reason, NULL);
}

static void
close_gone(struct subscriber *s)
{
    char earliest[POSITION_MAX], reason[124];
    struct buf members;
    struct head head;

    log_head(s->place->set->log, &head);
    positions_earliest(&head, earliest);
    snprintf(reason, sizeof(reason), "position gone; earliest %s", earliest);
    buf_init(&members, MEMBERS_MAX);
    positions_members(s->place->set, &head, &members);
    close_telling(s, CLOSE_POSITION_GONE, reason,
                  members.failed ? NULL : members.data);
    buf_fini(&members);
}

/* The set has ended: nothing more comes, and a new one of its name is another
 * log. */
static void
close_removed(struct subscriber *s)
{
    close_with(s, CLOSE_SET_REMOVED, "the set was removed");
}

/* What it needs next cannot be had. */
static void
close_failed(struct subscriber *s, enum status rc)
{
    struct head head;

    log_head(s->place->set->log, &head);
    if (head.is_removed)
        close_removed(s);
    else if (rc == STATUS_GONE)
        close_gone(s);
    else
        close_with(s, CLOSE_FAILED, "the broker cannot read its log");
}

static void
sent_now(struct subscriber *s, int64_t now_us)
{
    s->last_sent_us = now_us;
    list_remove(&s->idle_node);
    list_append(&s->thread->idle, &s->idle_node);
}

/* Lets go of a frame that cannot be sent now, when the thread has too many.
 * Where it was in it is enough to go on: see message.h. */
static void
let_go(struct subscriber *s)
{
    if (s->thread->frames.bytes <= FRAMES_BUDGET || s->frame->wish.is_heartbeat)
        return;
    s->upto = s->frame->last;
    s->frame_size = s->frame->size;
    frame_unref(s->frame);
    s->frame = NULL;
}

static void
drop_frame(struct subscriber *s)
{
    frame_unref(s->frame);
    s->frame = NULL;
    s->offset = 0;
    s->upto = 0;
}

/* The frame is with the socket, to its last byte. What was committed before the
 * subscriber came is no news: how old it is says nothing of us. */
static void
count_sent(const struct subscriber *s, int64_t now_us)
{
    metrics_add_label(METRIC_MESSAGES, transports_number(s->transport), 1);
    if (s->frame->committed_us > s->opened_us)
        metrics_observe_us(METRIC_PUSH_LATENCY,
                           now_us - s->frame->committed_us);
}

enum sent {
    SENT_PART,   /* on_room comes, or on_gone */
    SENT_CHOKED, /* whole, but nothing may follow until on_room */
    SENT_WHOLE
};

/* Sends what is left of the frame. */
static enum sent
send_frame(struct subscriber *s)
{
    enum stream_result sent = STREAM_SENT;
    int64_t now_us;

    while (s->offset < s->frame->size) {
        struct slice piece = transports_piece(
            (struct slice){s->frame->data, s->frame->size}, s->offset);

        sent = stream_write(s->stream, piece.data, piece.size);
        if (sent == STREAM_DEAD) {
            s->state = CLOSING;
            return SENT_PART;
        }
        s->offset += piece.size;
        if (sent == STREAM_CHOKED && s->offset < s->frame->size) {
            let_go(s);
            return SENT_PART;
        }
    }
    now_us = clock_steady_us();
    sent_now(s, now_us);
    count_sent(s, now_us);
    s->after = s->reached = s->frame->last;
    s->is_due = false;
    drop_frame(s);
    return sent == STREAM_CHOKED ? SENT_CHOKED : SENT_WHOLE;
}

/* Gives the subscriber a frame to send. */
static void
give_frame(struct subscriber *s, struct frame *frame)
{
    s->frame = frame_ref(frame);
    s->state = WRITING;
}

static struct frame_wish
wish_of(const struct subscriber *s)
{
    return (struct frame_wish){
        .set = s->place->set,
        .transport = s->transport,
        .after = s->after,
        .upto = s->upto ? s->upto : UINT64_MAX,
        .filter = s->filter,
        .reached = s->reached,
        .is_heartbeat = !s->is_greeted || (s->is_due && !s->upto),
        .has_since = s->has_since,
        .since_us = s->since_us,
    };
}

/* Moving on */

/* Finds or makes the frame that `s` needs next. false: it waits for a read, or
 * is being closed. */
static bool
next_frame(struct subscriber *s)
{
    struct frames *frames = &s->thread->frames;
    struct frame_wish wish = wish_of(s);
    struct frame *frame = frames_find(frames, &wish);
    struct problem why = {""};
    enum status rc;

    if (!frame) {
        rc = frame_make(&frame, &wish, LOG_MEMORY, &why);
        if (rc == STATUS_AGAIN) {
            s->state = READING;
            list_remove(&s->node);
            rc = reads_begin(&s->thread->reads, stream_service(s->stream),
                             &wish, &s->node);
            if (!rc)
                return false;
        }
        if (rc) {
            close_failed(s, rc);
            return false;
        }
        frames_adopt(frames, frame);
    }
    give_frame(s, frame);
    frame_unref(frame);
    return true;
}

/* A frame that was made again must be the one that was let go. */
static bool
is_same_frame(const struct subscriber *s)
{
    return !s->upto ||
           (s->frame->last == s->upto && s->frame->size == s->frame_size);
}

/* As far as this thread knows: a later commit has marked the set, and the mark
 * has not been taken yet. */
static bool
is_at_head(const struct subscriber *s)
{
    return s->reached >= s->place->last;
}

/*
 * Sends what the subscriber has, and decides what comes next. One message a
 * call: one that lags goes on when its turn comes in the event loop, so that it
 * holds up nobody.
 */
static void
advance(struct subscriber *s)
{
    enum sent sent = SENT_WHOLE;

    if (s->state == CLOSING)
        return;
    if (!s->frame && !next_frame(s))
        return;
    if (!is_same_frame(s)) {
        close_with(s, CLOSE_FAILED, "the message cannot be completed");
        return;
    }
    if (s->frame->size == 0) { /* nothing passes: only further on */
        s->reached = s->frame->last;
        drop_frame(s);
    } else {
        bool was_greeting = s->frame->wish.is_heartbeat;

        sent = send_frame(s);
        if (sent == SENT_PART)
            return;
        if (was_greeting) {
            s->is_greeted = true;
            s->has_since = false;
        }
    }

    if (sent == SENT_CHOKED) {
        s->state = WRITING;
    } else if (is_at_head(s)) {
        s->state = WAITING;
        list_append(&s->place->waiting, &s->node);
    } else {
        s->state = WRITING;
        stream_want_room(s->stream);
    }
}

/* A read has ended. */
static void
on_read(struct frame *frame, enum status rc, struct list *waiters, void *user)
{
    struct push_thread *t = user;

    if (!rc)
        frames_adopt(&t->frames, frame);
    while (!list_is_empty(waiters)) {
        struct subscriber *s =
            list_entry(waiters->next, struct subscriber, node);

        list_remove(&s->node);
        if (rc) {
            close_failed(s, rc);
        } else {
            give_frame(s, frame);
            advance(s);
        }
    }
}

/* Sends the news to those who waited at the head. */
static void
serve_waiting(struct place *p)
{
    struct list all;

    list_init(&all);
    list_move(&all, &p->waiting);
    while (!list_is_empty(&all)) {
        struct subscriber *s = list_entry(all.next, struct subscriber, node);

        list_remove(&s->node);
        if (is_at_head(s)) {
            list_append(&p->waiting, &s->node);
        } else {
            s->state = WRITING;
            advance(s);
        }
    }
}

/* Says farewell to all subscribers of a set that has ended, wherever they are
 * in it. Rare, so it may look at all of the thread's. */
static void
serve_removal(struct push_thread *t, const struct place *p)
{
    struct list *node, *next;

    list_foreach (node, next, &t->idle) {
        struct subscriber *s = list_entry(node, struct subscriber, idle_node);

        if (s->place == p && s->state != CLOSING)
            close_removed(s);
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
    places_take(&t->places);
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

/* Heartbeats: one frame per set, transport and tick for all who are at the
 * head. */

static void
send_heartbeat(struct subscriber *s)
{
    struct place *p = s->place;
    struct frame **shared = &p->heartbeat[transports_number(s->transport)];
    const struct frame_wish wish = {
        .set = p->set,
        .transport = s->transport,
        .after = s->after,
        .upto = UINT64_MAX,
        .reached = s->reached,
        .is_heartbeat = true,
    };

    if (*shared && ((*shared)->wish.after != s->after ||
                    (*shared)->wish.reached != s->reached)) {
        frame_unref(*shared);
        *shared = NULL;
    }
    if (!*shared) {
        if (frame_make(shared, &wish, LOG_MEMORY, NULL)) {
            /* The head has moved on: news is coming anyway, but perhaps none
             * that passes; where its last message ended may be on a disk. */
            s->is_due = s->filter != NULL;
            if (s->is_due) {
                list_remove(&s->node);
                s->state = WRITING;
                advance(s);
            }
            return;
        }
        frames_adopt(&s->thread->frames, *shared);
    }
    list_remove(&s->node);
    give_frame(s, *shared);
    advance(s);
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
                 is_at_head(s) ? 0 : s->place->last - s->after);
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
        sent_now(s, now_us); /* also who cannot be sent to: asked again later */
        if (s->state == WAITING)
            send_heartbeat(s);
        else if (s->filter) /* it may be passing over what it does not get */
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
    s->state = WRITING;
    if (s->is_gone)
        close_gone(s);
    else if (s->thread->is_ending)
        close_with(s, CLOSE_GOING_AWAY, "the broker is ending");
    else if (s->place->is_removed)
        close_removed(s);
    else
        advance(s);
}

static void
on_room(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    (void)stream;
    if (s->state == WRITING) {
        if (!s->frame && s->is_greeted && !s->upto && is_at_head(s)) {
            s->state = WAITING;
            list_append(&s->place->waiting, &s->node);
            return;
        }
        advance(s);
    }
}

static void
on_gone(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    (void)stream;
    list_remove(&s->node);
    list_remove(&s->idle_node);
    frame_unref(s->frame);
    filters_leave(s->filter);
    count(s, -1);
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
        struct problem why = {"the broker has no memory left"};

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
    count(s, 1);
    s->transport->accept(rq, s->transport, wish->is_named, &stream_handlers, s);
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

        if (s->state != CLOSING)
            close_with(s, CLOSE_GOING_AWAY, "the broker is ending");
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
        return problem(why, STATUS_MEMORY, "no memory for subscribers");
    push->registry = registry;
    push->n_threads = threads;
    for (size_t i = 0; i < TRANSPORTS; i++)
        metrics_name(LABEL_TRANSPORT, i, transports_label(i));
    for (unsigned i = 0; i < threads; i++) {
        struct push_thread *t = &push->threads[i];

        places_init(&t->places);
        reads_init(&t->reads, on_read, t);
        frames_init(&t->frames);
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
        frames_fini(&push->threads[i].frames);
        places_fini(&push->threads[i].places);
    }
    free(push);
}

#include "broker/hub/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/random.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/calls/caller.h"
#include "broker/hub/attempt.h"
#include "broker/hub/framework.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "proto/memory.h"

/* Pause after a failure of our own: of a disk, or no memory for a
 * body. */
#define PAUSE_US ((int64_t)1000000)

struct deliveries {
    struct list fixed; /* deliveries whose ranges hub.db gets, by the end of
                          this turn or of a later one */
    struct list ended; /* to be freed when no function of a call uses them any
                          more */
};

/*
 * A delivery: from when its subscription is due until its outcome. A
 * subscription has at most one. The list that holds `node` gives its state:
 *
 *   (none)    queued with the caller, or under way, or its reader waits for
 *             the body
 *   fixed     its range is written, and goes out when that is kept
 *   ended     done with
 *
 * The reader holds the body from when the delivery's turn has come.
 */
struct delivery {
    struct list node;
    struct subscription *s;
    struct call call;
    uint64_t upto; /* of the reader, when its turn came */
    struct attempt *attempt;
    bool is_going;
};

/* Releases everything that a delivery holds; the end of the turn frees it. */
static void
end_delivery(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (d->is_going)
        metrics_add(METRIC_HUB_IN_FLIGHT, -1);
    reader_release(&s->reader);
    attempt_free(d->attempt);
    d->attempt = NULL;
    list_put(&all->ended, &d->node);
    s->delivery = NULL;
}

/* At the end of a turn. The figure counts a body once, however many deliveries
 * hold it. */
static void
free_ended(struct hub *hub)
{
    struct delivery *d;

    metrics_set(METRIC_HUB_BODY_BYTES,
                (int64_t)hub->readers.messages.held_bytes);
    list_drain (d, &hub->deliveries->ended, node)
        free(d);
}

/* The cursor */

static void
forget_failures(struct subscription *s)
{
    s->failures = 0;
    s->failing_since_us = 0;
}

static void
move_cursor(struct subscription *s, uint64_t after)
{
    reader_move(&s->reader, after);
    list_put(&s->hub->moved, &s->moved);
    forget_failures(s);
}

static void
count_skipped(struct subscription *s, uint64_t n)
{
    s->history.n_skipped += n;
    metrics_add(METRIC_HUB_SKIPPED, (int64_t)n);
}

/* Moves the cursor to the earliest retained entry; the next message's `after`
 * shows the hole. Entries that the filter is known not to pass do not count. */
static void
skip_lost(struct subscription *s)
{
    uint64_t start = reader_start(&s->reader);
    uint64_t earliest = topic_earliest(s->topic);

    if (earliest < start)
        earliest = start;
    if (earliest > start) {
        count_skipped(s, earliest - start);
        DIAG(DIAG_WARNING, "hub",
             "a subscription was behind the retained changes and continues "
             "after the gap",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->reader.after),
             diag_number("to", earliest));
    }
    move_cursor(s, earliest);
}

/* Forgets a tried range if a renewal has changed its form: with another filter
 * the range would have other bytes. The next range has another ID. hub.db has
 * this with the new terms, or soon after. */
static void
check_form(struct subscription *s)
{
    if (s->reader.upto == 0 || s->range_form == attempt_form(s))
        return;
    s->reader.upto = 0;
    hub_rows_put_range(s->hub->db, s);
}

/* When it is due */

static void begin_delivery(struct subscription *s);

static void
on_alarm(struct alarm *alarm)
{
    begin_delivery(list_entry(alarm, struct subscription, retry_alarm));
}

static void
begin_at(struct subscription *s, int64_t at_us)
{
    s->retry_alarm.ring = on_alarm;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, at_us);
}

static void
pause_delivery(struct subscription *s, int64_t us)
{
    begin_at(s, clock_steady_us() + us);
}

/* reader_calls.look. A fixed range is delivered whatever the head is. */
static bool
look_at_topic(const struct reader *reader, struct channel *channel,
              uint64_t *head)
{
    const struct topic *topic =
        list_entry(reader, struct subscription, reader)->topic;

    *channel = topic_channel(topic);
    if (!topic_head(topic, head)) { /* the hub is about to end it */
        /* The last event of a framework topic is known at its end. Until then
         * its readers rest, so that topic_end wakes them. */
        *head = reader_start(reader);
        return topic->kind == TOPIC_FRAMEWORK;
    }
    /* framework_look marks the topic for events behind `seen`; but no longer
     * when the set is gone. */
    if (topic->kind == TOPIC_FRAMEWORK && !topic->is_ending &&
        framework_seen(topic->hub) < *head)
        *head = framework_seen(topic->hub);
    return true;
}

/* Decides the next step of a subscription that has no delivery. topic_listen
 * came before this look at the head, so a later commit finds the subscription
 * if it rests. */
static void
go_on(struct subscription *s)
{
    int64_t next_us = s->last_begun_us + s->terms.interval_us;
    enum reader_state state;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->busy);
    reader_release(&s->reader);
    state = reader_rest(&s->reader);
    if (state == READER_HEAD && s->topic->is_ending)
        hub_end_soon(s, END_REMOVED); /* it has the topic's last entry */
    if (state != READER_READY)
        return;
    list_append(&s->topic->busy, &s->busy);
    if (s->last_begun_us != 0 && s->reader.upto == 0 &&
        next_us > clock_steady_us())
        begin_at(s, next_us);
    else
        begin_delivery(s);
}

/* A delivery's turn has come */

/* Ends a delivery without a call; the subscription continues as decided. */
static enum call_turn
leave_call(struct delivery *d)
{
    end_delivery(d);
    return CALL_NOT;
}

/* Ends a delivery because of a failure of our own, and sets a new try. */
static enum call_turn
leave_call_for(struct delivery *d, int64_t pause_us)
{
    pause_delivery(d->s, pause_us);
    return leave_call(d);
}

/* The body is held: makes the headers. */
static enum call_turn
make_attempt(struct delivery *d)
{
    d->attempt = attempt_make(d->s, d->s->reader.message);
    if (!d->attempt)
        return leave_call_for(d, PAUSE_US);
    d->call.headers = d->attempt->headers;
    d->call.body = shared_message_slice(d->s->reader.message);
    d->is_going = true;
    metrics_add(METRIC_HUB_IN_FLIGHT, 1);
    if (d->s->failures == 0)
        d->s->last_begun_us = clock_steady_us();
    return CALL_READY;
}

/* Fixes the range, once for all tries. */
static enum call_turn
fix_range(struct delivery *d)
{
    struct subscription *s = d->s;

    if (s->reader.upto == s->reader.message->last)
        return make_attempt(d); /* hub.db has the range */
    s->reader.upto = s->reader.message->last;
    s->range_form = attempt_form(s);
    hub_rows_put_range(s->hub->db, s);
    list_append(&s->hub->deliveries->fixed, &d->node);
    return CALL_LATER;
}

/* The log has changed: the next try has a range, and an ID, of its own. */
static void
report_lost_range(const struct delivery *d)
{
    const struct subscription *s = d->s;

    DIAG(DIAG_ERROR, "hub", "a delivery cannot be repeated as it was",
         diag_number("id", s->id),
         diag_text("callback", websub_origin(slice_of(s->callback)).text),
         diag_number("after", s->reader.after), diag_number("last", d->upto));
}

/* Continues with what the reader has come to. */
static enum call_turn
take_body(struct delivery *d)
{
    struct subscription *s = d->s;

    switch (s->reader.state) {
    case READER_READY:
        return fix_range(d);
    case READER_LATER:
        return CALL_LATER;
    case READER_GONE:
        skip_lost(s);
        break;
    case READER_HEAD:
        break;
    case READER_REMOVED: /* it ends soon */
    case READER_FAILED:
        if (d->upto != s->reader.upto)
            report_lost_range(d);
        return leave_call_for(d, PAUSE_US);
    }
    leave_call(d);
    go_on(s);
    return CALL_NOT;
}

static enum call_turn
on_call_turn(struct call *call)
{
    struct delivery *d = list_entry(call, struct delivery, call);

    /* The lease alarm ends the subscription (W-072): within an hour, if the
     * clock was set. */
    if (subscription_is_over(d->s))
        return leave_call_for(d, 60 * PAUSE_US);
    d->upto = d->s->reader.upto;
    if (reader_next(&d->s->reader) == READER_LATER)
        return CALL_LATER;
    return take_body(d);
}

/* Gives the caller the decision that on_call_turn postponed. */
static void
answer_caller(struct caller *caller, struct delivery *d, enum call_turn turn)
{
    if (turn != CALL_LATER)
        caller_go(caller, &d->call, turn == CALL_READY);
}

/* There is news for a subscription that rests, or the body that its delivery
 * waits for. */
static void
on_ready(struct reader *reader)
{
    struct subscription *s = list_entry(reader, struct subscription, reader);
    struct delivery *d = s->delivery;

    if (d)
        answer_caller(s->hub->caller, d, take_body(d));
    else
        go_on(s);
}

/* Outcomes */

/* Gives up this range only, because the callback had its time (W-090). Without
 * a fixed range no call reached the callback, and nothing is lost. */
static void
give_up_range(struct subscription *s, uint64_t entries)
{
    if (s->reader.upto == 0) {
        forget_failures(s);
        return;
    }
    count_skipped(s, entries);
    metrics_add(METRIC_HUB_GIVEN_UP, 1);
    DIAG(DIAG_WARNING, "hub", "a delivery was given up",
         diag_number("id", s->id),
         diag_text("callback", websub_origin(slice_of(s->callback)).text),
         diag_number("after", s->reader.after),
         diag_number("last", s->reader.upto),
         diag_text("error", s->history.last_error));
    move_cursor(s, s->reader.upto);
}

/* Measures the time from the commit to the 2xx. Entries from before the
 * subscription say nothing about our speed, and are not measured. */
static void
observe_latency(const struct subscription *s, const struct shared_message *body)
{
    int64_t age_us = clock_now_us() - s->created_us;
    int64_t took_us = clock_steady_us() - body->committed_us;

    if (s->failures == 0 && body->committed_us > 0 && took_us < age_us)
        metrics_observe_us(METRIC_HUB_LATENCY, took_us);
}

static void
end_well(struct subscription *s, const struct call *call)
{
    s->history.n_deliveries++;
    s->history.last_success_us = clock_now_us();
    s->history.last_status = call->status;
    s->history.last_error[0] = '\0';
    metrics_add(METRIC_HUB_DELIVERIES, 1);
    move_cursor(s, s->reader.upto);
    go_on(s);
}

/* Counts <url> elements: one per entry. User text in a message is escaped. */
static uint64_t
count_urls(const struct shared_message *body)
{
    const char *at = body->data, *end = body->data + body->size;
    uint64_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), "<url>", 5))) {
        at += 5;
        n++;
    }
    return n;
}

/* Counts the entries of the body: all that it covers, or with a filter those
 * that pass. */
static uint64_t
count_entries(const struct shared_message *body)
{
    if (body->filter_id != 0 || body->wish.channel.kind == TOPIC_FRAMEWORK)
        return body->size > 0 ? count_urls(body) : 0;
    return body->last - body->wish.after;
}

/* After a failure: sets the next try, or gives up. */
static void
end_badly(struct subscription *s, const struct call *call, uint64_t entries)
{
    const struct config *config = s->hub->config;
    struct backoff backoff = {config->hub_retry_first_us,
                              config->hub_retry_max_us};
    int64_t now_us = clock_steady_us(), end_us;

    s->history.n_failed++;
    s->failures++;
    if (s->failing_since_us == 0)
        s->failing_since_us = now_us;
    s->history.last_failure_us = clock_now_us();
    s->history.last_status = call->status;
    attempt_explain(call, s->history.last_error, sizeof(s->history.last_error));
    metrics_add(METRIC_HUB_FAILURES, 1);

    end_us = s->failing_since_us + config->hub_give_up_us;
    if (now_us >= end_us) {
        give_up_range(s, entries);
        go_on(s);
        return;
    }
    check_form(s);
    begin_at(s, backoff_next(now_us,
                             backoff_pause(&backoff, s->failures, random_u32()),
                             attempt_retry_after(call), end_us));
}

static void
on_done(struct call *call)
{
    struct delivery *d = list_entry(call, struct delivery, call);
    struct subscription *s = d->s;
    enum attempt_outcome outcome = attempt_judge(call, s->kind);
    uint64_t entries = 0;

    if (outcome == ATTEMPT_DELIVERED)
        observe_latency(s, s->reader.message);
    else if (s->reader.message) /* a call may fail before its turn comes */
        entries = count_entries(s->reader.message);
    end_delivery(d);
    if (call->failure == CALL_MEMORY) { /* our fault, not the callback's */
        pause_delivery(s, PAUSE_US);
        return;
    }
    s->history.n_attempts++;
    call_history_add(&s->calls, outcome == ATTEMPT_FAILED, call->took_us,
                     call->timeout_us);
    metrics_add(METRIC_HUB_ATTEMPTS, 1);
    switch (outcome) {
    case ATTEMPT_DELIVERED:
        end_well(s, call);
        break;
    case ATTEMPT_ENDED:
        hub_end_soon(s, END_GONE);
        break;
    case ATTEMPT_FAILED:
        end_badly(s, call, entries);
        break;
    }
}

static void
begin_delivery(struct subscription *s)
{
    struct delivery *d = memory_new(1, sizeof(*d));

    list_init(&d->node);
    d->s = s;
    d->call.method = CALL_POST;
    d->call.url = s->callback;
    d->call.timeout_us = s->hub->config->hub_timeout_us;
    d->call.max_answer = ATTEMPT_ANSWER_MAX;
    d->call.also = hub_also(s->hub, &s->terms);
    d->call.owner = s->key.holding.client;
    d->call.is_suspect = s->reader.is_suspect = subscription_is_suspect(s);
    d->call.prepare = on_call_turn;
    d->call.done = on_done;
    s->delivery = d;
    caller_start(s->hub->caller, &d->call);
}

/* For the hub */

void
delivery_begin(struct subscription *s)
{
    uint64_t head;

    list_init(&s->busy);
    s->reader.on_ready = on_ready;
    s->range_form = attempt_form(s);
    if (s->topic->kind == TOPIC_FRAMEWORK)
        framework_listen(s->hub);
    else
        topic_listen(s->topic);
    if (topic_head(s->topic, &head) && s->reader.after > head) {
        DIAG(DIAG_WARNING, "hub", "a subscription is ahead of its log",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->reader.after), diag_number("last", head));
        move_cursor(s, head);
    }
    go_on(s);
}

void
delivery_cut(struct subscription *s)
{
    struct delivery *d = s->delivery;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->busy);
    forget_failures(s);
    s->last_begun_us = 0;
    if (!d) {
        reader_release(&s->reader);
        return;
    }
    caller_cancel(s->hub->caller, &d->call);
    end_delivery(d);
}

void
delivery_look(struct subscription *s)
{
    if (s->delivery)
        return;
    check_form(s);
    go_on(s);
}

void
deliveries_wake(struct hub *hub)
{
    struct watcher *watcher = &hub->readers.watcher;
    struct watched_log *watched;

    framework_look(hub);
    watcher_take(watcher);
    while ((watched = watcher_next(watcher))) {
        watched_clear(watched);
        watched_channel_wake(
            list_entry(watched, struct watched_channel, watched),
            DELIVERY_WAKES_AT_ONCE);
    }
}

void
deliveries_settle(struct hub *hub)
{
    if (!list_is_empty(&hub->deliveries->ended) && !hub_is_stopping(hub))
        readers_go_on(&hub->readers);
    free_ended(hub);
}

void
deliveries_turn(struct hub *hub)
{
    struct delivery *d;

    list_drain (d, &hub->deliveries->fixed, node)
        answer_caller(hub->caller, d, make_attempt(d));
}

static struct hub *
hub_of(struct shared_messages *messages)
{
    return list_entry(messages, struct hub, readers.messages);
}

static void
do_job(struct shared_messages *messages, struct job *job)
{
    caller_work(hub_of(messages)->caller, job);
}

static bool
is_stopping(struct shared_messages *messages)
{
    return hub_is_stopping(hub_of(messages));
}

static const struct reader_calls calls = {
    .shared =
        {
            .part = "hub",
            .make = topic_make,
            .work = do_job,
            .is_stopping = is_stopping,
        },
    .look = look_at_topic,
    .wants_newest = true,
};

static void
wake_hub(struct watcher *watcher)
{
    hub_wake(list_entry(watcher, struct hub, readers.watcher));
}

void
deliveries_open(struct hub *hub)
{
    struct deliveries *all = memory_new(1, sizeof(*all));

    framework_open(hub);
    readers_init(&hub->readers, &calls,
                 registry_config(hub->registry)->hub_body_bytes, wake_hub);
    list_init(&all->fixed);
    list_init(&all->ended);
    hub->deliveries = all;
}

void
deliveries_close(struct hub *hub)
{
    if (!hub->deliveries)
        return;
    free_ended(hub);
    framework_close(hub);
    readers_fini(&hub->readers);
    free(hub->deliveries);
    hub->deliveries = NULL;
}

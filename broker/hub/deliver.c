#include "broker/hub/deliver.h"

#include <stdlib.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/delivery.h"
#include "broker/hub/framework.h"

/* The figure counts a body once, however many deliveries hold it. */
static void
measure_bodies(const struct deliveries *all)
{
    metrics_set(METRIC_HUB_BODY_BYTES, (int64_t)all->messages.held_bytes);
}

void
delivery_hold(struct delivery *d, struct shared_message *body)
{
    struct deliveries *all = d->s->hub->deliveries;

    shared_messages_hold(&all->messages, body, d->call.is_suspect);
    measure_bodies(all);
    d->body = body;
}

static void
release_body(struct delivery *d)
{
    struct deliveries *all = d->s->hub->deliveries;

    if (!d->body)
        return;
    shared_messages_release(&all->messages, d->body, d->call.is_suspect);
    measure_bodies(all);
    d->body = NULL;
}

/* Releases everything that a delivery holds; the end of the turn frees it. */
void
delivery_end(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (d->is_going)
        metrics_add(METRIC_HUB_IN_FLIGHT, -1);
    release_body(d);
    attempt_free(d->attempt);
    d->attempt = NULL;
    list_remove(&d->node);
    list_append(&all->ended, &d->node);
    s->delivery = NULL;
}

enum call_turn
delivery_wait_in(struct list *list, struct delivery *d)
{
    list_remove(&d->node);
    list_append(list, &d->node);
    return CALL_LATER;
}

static void
free_ended(struct deliveries *all)
{
    while (!list_is_empty(&all->ended)) {
        struct delivery *d = list_entry(all->ended.next, struct delivery, node);

        list_remove(&d->node);
        free(d);
    }
}

static void begin(struct subscription *s);

/* When it is due */

static void
on_alarm(struct alarm *alarm)
{
    begin(list_entry(alarm, struct subscription, retry_alarm));
}

void
delivery_begin_at(struct subscription *s, int64_t at_us)
{
    s->retry_alarm.ring = on_alarm;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, at_us);
}

void
delivery_pause(struct subscription *s, int64_t us)
{
    delivery_begin_at(s, clock_steady_us() + us);
}

/* True if there is something to deliver. A fixed range is delivered whatever
 * the head is. */
static bool
has_more(const struct subscription *s)
{
    uint64_t head;

    if (!topic_head(s->topic, &head))
        return false; /* the hub is about to end it */
    /* framework_look marks the topic for events behind `seen`; but no longer
     * when the set is gone. */
    if (s->topic->kind == TOPIC_FRAMEWORK && !s->topic->is_ending &&
        framework_seen(s->hub) < head)
        head = framework_seen(s->hub);
    return s->range_last != 0 || subscription_start(s) < head;
}

static void
place(struct subscription *s, bool is_resting)
{
    struct topic *topic = s->topic;

    list_remove(&s->node);
    list_append(is_resting ? &topic->resting : &topic->busy, &s->node);
    s->is_resting = is_resting;
}

static void
on_end(struct alarm *alarm)
{
    subscription_end(list_entry(alarm, struct subscription, retry_alarm),
                     END_REMOVED);
}

/* Ends a subscription that has received its topic's last entry. An alarm does
 * it, because the caller still uses the subscription. */
static void
end_soon(struct subscription *s)
{
    s->retry_alarm.ring = on_end;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, clock_steady_us());
}

/* Decides the next step of a subscription that has no delivery. topic_listen
 * came before this look at the head, so a later commit finds the subscription
 * if it rests. */
void
delivery_go_on(struct subscription *s)
{
    int64_t next_us = s->last_begun_us + s->terms.interval_us;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    place(s, !has_more(s));
    if (s->is_resting) {
        if (s->topic->is_ending)
            end_soon(s);
        return;
    }
    if (s->last_begun_us != 0 && s->range_last == 0 &&
        next_us > clock_steady_us())
        delivery_begin_at(s, next_us);
    else
        begin(s);
}

static void
begin(struct subscription *s)
{
    struct delivery *d = calloc(1, sizeof(*d));

    if (!d) {
        delivery_pause(s, DELIVERY_PAUSE_US);
        return;
    }
    list_init(&d->node);
    d->s = s;
    d->call.method = CALL_POST;
    d->call.url = s->callback;
    d->call.timeout_us = s->hub->config->hub_timeout_us;
    d->call.max_answer = ATTEMPT_ANSWER_MAX;
    d->call.also = hub_also(s->hub, &s->terms);
    d->call.is_suspect = s->failures > 0;
    d->call.prepare = prepare_call;
    d->call.done = outcome_done;
    s->delivery = d;
    caller_start(s->hub->caller, &d->call);
}

/* For the other files */

void
deliver_begin(struct subscription *s)
{
    uint64_t head;

    list_init(&s->node);
    s->range_form = attempt_form(s);
    topic_listen(s->topic);
    if (topic_head(s->topic, &head) && s->after > head) {
        DIAG(DIAG_WARNING, "hub", "a subscription is ahead of its log",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->after), diag_number("last", head));
        outcome_move(s, head);
    }
    delivery_go_on(s);
}

static void
on_room(struct alarm *alarm)
{
    prepare_starving(list_entry(alarm, struct deliveries, room));
}

static bool
is_anybody_waiting(const struct deliveries *all)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++)
        if (!list_is_empty(&all->starving[is_suspect]) ||
            !list_is_empty(&all->messages.queued[is_suspect]))
            return true;
    return false;
}

/* Deliveries that wait for the room get it soon, but not from here: the owner
 * is about to be freed, or the thread to end, and then no alarm rings. */
void
deliver_cut(struct subscription *s)
{
    struct deliveries *all = s->hub->deliveries;
    struct delivery *d = s->delivery;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->node);
    outcome_forget(s);
    s->last_begun_us = 0;
    if (!d)
        return;
    caller_cancel(s->hub->caller, &d->call);
    delivery_end(d);
    if (is_anybody_waiting(all)) {
        all->room.ring = on_room;
        caller_set_alarm(s->hub->caller, &all->room, clock_steady_us());
    }
}

void
deliver_look(struct subscription *s)
{
    if (s->delivery)
        return;
    outcome_look_at_form(s);
    delivery_go_on(s);
}

/* Wakes the resting subscriptions of a topic that has news, and those that
 * earlier news left to be woken. */
static void
wake_resting(struct topic *topic)
{
    struct list *node;

    list_move(&topic->waking, &topic->resting);
    for (int i = 0; i < DELIVERY_WAKES_AT_ONCE; i++) {
        node = list_first(&topic->waking);
        if (!node)
            return;
        delivery_go_on(list_entry(node, struct subscription, node));
    }
    if (!list_is_empty(&topic->waking))
        watched_mark(&topic->watched);
}

void
deliver_wake(struct hub *hub)
{
    struct topic *topic;

    framework_look(hub);
    watcher_take(&hub->watcher);
    while ((topic = topic_next_marked(hub)))
        wake_resting(topic);
}

void
deliver_turn(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    free_ended(all);
    while (!list_is_empty(&all->fixed)) {
        struct delivery *d = list_entry(all->fixed.next, struct delivery, node);

        list_remove(&d->node);
        prepare_tell(hub->caller, d, prepare_send(d));
    }
}

/* Writes ranges once more, in the transaction of the turn in which the alarm
 * rings. */
static void
write_again(struct alarm *alarm)
{
    struct deliveries *all = list_entry(alarm, struct deliveries, again);

    all->is_again_set = false;
    while (!list_is_empty(&all->unkept)) {
        struct delivery *d =
            list_entry(all->unkept.next, struct delivery, node);

        hub_db_put_range(all->hub->db, d->s->id, d->s->after, d->s->range_last);
        delivery_wait_in(&all->fixed, d);
    }
}

void
deliver_unkept(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    free_ended(all);
    list_move(&all->unkept, &all->fixed);
    if (!list_is_empty(&all->unkept) && !all->is_again_set) {
        all->is_again_set = true;
        all->again.ring = write_again;
        caller_set_alarm(hub->caller, &all->again,
                         clock_steady_us() + DELIVERY_PAUSE_US);
    }
}

static void
work(struct shared_messages *messages, struct job *job)
{
    struct deliveries *all = list_entry(messages, struct deliveries, messages);

    caller_work(all->hub->caller, job);
}

static bool
is_stopping(struct shared_messages *messages)
{
    return hub_is_stopping(
        list_entry(messages, struct deliveries, messages)->hub);
}

static const struct shared_calls calls = {
    .part = "hub",
    .make = topic_make,
    .work = work,
    .is_stopping = is_stopping,
    .loaded = prepare_loaded,
};

static void
wake_hub(struct watcher *watcher)
{
    hub_wake(list_entry(watcher, struct hub, watcher));
}

enum status
deliver_open(struct hub *hub, struct problem *why)
{
    struct deliveries *all = calloc(1, sizeof(*all));

    if (!all)
        return problem_memory(why);
    all->hub = hub;
    watcher_init(&hub->watcher, wake_hub);
    shared_messages_init(&all->messages, &calls,
                         registry_config(hub->registry)->hub_body_bytes);
    list_init(&all->starving[false]);
    list_init(&all->starving[true]);
    list_init(&all->fixed);
    list_init(&all->unkept);
    list_init(&all->ended);
    hub->deliveries = all;
    return STATUS_OK;
}

void
deliver_close(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    if (!all)
        return;
    free_ended(all);
    shared_messages_fini(&all->messages);
    free(all);
    hub->deliveries = NULL;
}

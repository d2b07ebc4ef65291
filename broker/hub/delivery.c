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
#include "broker/hub/hub_state.h"
#include "broker/readers/shared_messages.h"

/* Pause after a failure of our own: of a disk, or no memory. */
#define PAUSE_US ((int64_t)1000000)

struct deliveries {
    struct hub *hub;
    end_subscription_fn *end_subscription;
    struct shared_messages messages; /* their bodies */
    struct list starving[2]; /* deliveries whose turn has come, but there is no
                                room for bodies: healthy ones, suspects */
    struct list fixed;       /* deliveries whose ranges this turn has written */
    struct list unkept;      /* the same, of a turn whose commit failed */
    struct alarm again;      /* writes their ranges once more */
    bool is_again_set;
    struct alarm room; /* serves the starving */
    struct list ended; /* to be freed when no function of a call uses them any
                          more */
};

/*
 * A delivery: from when its subscription is due until its outcome. A
 * subscription has at most one. The list that holds `node` gives its state:
 *
 *   (none)    queued with the caller, or under way
 *   starving  its turn has come, and waits for room
 *   waiters   of a load: its body is being made
 *   fixed     its range is written, to be kept when this turn ends
 *   unkept    its range could not be kept
 *   ended     done with
 */
struct delivery {
    struct list node;
    struct subscription *s;
    struct call call;
    struct shared_message *body; /* held, as call.is_suspect says; or NULL */
    struct attempt *attempt;
    bool is_going;
};

/* The figure counts a body once, however many deliveries hold it. */
static void
measure_bodies(const struct deliveries *all)
{
    metrics_set(METRIC_HUB_BODY_BYTES, (int64_t)all->messages.held_bytes);
}

static void
hold_body(struct delivery *d, struct shared_message *body)
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
static void
end_delivery(struct delivery *d)
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

static enum call_turn
wait_in(struct list *list, struct delivery *d)
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
    s->after = s->reached = after;
    s->range_last = 0;
    list_remove(&s->moved);
    list_append(&s->hub->moved, &s->moved);
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
skip_to(struct subscription *s, uint64_t earliest)
{
    uint64_t start = subscription_start(s);

    if (earliest < start)
        earliest = start;
    if (earliest > start) {
        count_skipped(s, earliest - start);
        DIAG(DIAG_WARNING, "hub",
             "a subscription was behind the retained changes and continues "
             "after the gap",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->after), diag_number("to", earliest));
    }
    move_cursor(s, earliest);
}

/* Forgets a tried range if a renewal has changed its form: with another filter
 * the range would have other bytes. The next range has another ID. hub.db has
 * this with the new terms, or soon after. */
static void
check_form(struct subscription *s)
{
    if (s->range_last == 0 || s->range_form == attempt_form(s))
        return;
    s->range_last = 0;
    hub_db_put_range(s->hub->db, s->id, s->after, 0);
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
place_subscription(struct subscription *s, bool is_resting)
{
    struct topic *topic = s->topic;

    list_remove(&s->node);
    list_append(is_resting ? &topic->resting : &topic->busy, &s->node);
    s->is_resting = is_resting;
}

static void
on_last_entry(struct alarm *alarm)
{
    struct subscription *s =
        list_entry(alarm, struct subscription, retry_alarm);

    s->hub->deliveries->end_subscription(s, END_REMOVED);
}

/* Ends a subscription that has received its topic's last entry. An alarm does
 * it, because the caller still uses the subscription. */
static void
end_soon(struct subscription *s)
{
    s->retry_alarm.ring = on_last_entry;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, clock_steady_us());
}

/* Decides the next step of a subscription that has no delivery. topic_listen
 * came before this look at the head, so a later commit finds the subscription
 * if it rests. */
static void
go_on(struct subscription *s)
{
    int64_t next_us = s->last_begun_us + s->terms.interval_us;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    place_subscription(s, !has_more(s));
    if (s->is_resting) {
        if (s->topic->is_ending)
            end_soon(s);
        return;
    }
    if (s->last_begun_us != 0 && s->range_last == 0 &&
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

static struct shared_wish
wish_of(const struct subscription *s)
{
    return (struct shared_wish){
        .channel = topic_channel(s->topic),
        .after = s->after,
        .upto = s->range_last ? s->range_last : UINT64_MAX,
        .filter = s->filter,
        .reached = s->reached,
        .is_plain = s->terms.is_simple,
    };
}

/* The body is held: makes the headers. */
static enum call_turn
make_attempt(struct delivery *d)
{
    if (attempt_make(&d->attempt, d->s, d->body))
        return leave_call_for(d, PAUSE_US);
    d->call.headers = d->attempt->headers;
    d->call.body = shared_message_slice(d->body);
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
    struct deliveries *all = s->hub->deliveries;

    if (s->range_last == d->body->last)
        return make_attempt(d); /* hub.db has the range */
    s->range_last = d->body->last;
    s->range_form = attempt_form(s);
    hub_db_put_range(s->hub->db, s->id, s->after, s->range_last);
    return wait_in(&all->fixed, d);
}

static enum call_turn
load_body(struct delivery *d, const struct shared_wish *wish)
{
    struct deliveries *all = d->s->hub->deliveries;

    list_remove(&d->node);
    if (shared_messages_load(&all->messages, wish, d->call.is_suspect,
                             &d->node))
        return leave_call_for(d, PAUSE_US);
    return CALL_LATER;
}

/* Moves on after a search in which nothing passed the filter. Workers search a
 * long way, step by step. */
static enum call_turn
pass_over(struct delivery *d, uint64_t last)
{
    struct subscription *s = d->s;
    struct shared_wish wish;
    uint64_t head;

    if (last > s->reached)
        s->reached = last;
    if (topic_head(s->topic, &head) && s->reached < head &&
        s->topic->kind != TOPIC_RELAY) {
        wish = wish_of(s);
        return load_body(d, &wish);
    }
    leave_call(d);
    go_on(s);
    return CALL_NOT;
}

/* Takes a body that serves the delivery's wish. */
static enum call_turn
take_body(struct delivery *d, struct shared_message *body)
{
    struct subscription *s = d->s;

    if (body->size == 0 && s->range_last == 0) {
        if (body->is_full && body->last == shared_wish_start(&body->wish))
            return leave_call_for(
                d, PAUSE_US); /* more exists, but none was read */
        return pass_over(d, body->last);
    }
    if (s->range_last != 0 &&
        (body->size == 0 || body->last != s->range_last)) {
        /* The log has changed. The next try has a range, and an ID, of its
         * own. */
        DIAG(DIAG_ERROR, "hub", "a delivery cannot be repeated as it was",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->after),
             diag_number("last", s->range_last));
        s->range_last = 0;
        return leave_call_for(d, PAUSE_US);
    }
    hold_body(d, body);
    return fix_range(d);
}

/* Continues after a body could not be read. */
static enum call_turn
give_up_body(struct delivery *d, enum status rc, uint64_t last)
{
    struct subscription *s = d->s;

    if (rc != STATUS_GONE)
        return leave_call_for(d,
                              PAUSE_US); /* if the set is gone, it ends soon */
    skip_to(s, last);
    leave_call(d);
    go_on(s);
    return CALL_NOT;
}

/* Finds or makes the body. */
static enum call_turn
prepare_body(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;
    struct shared_wish wish = wish_of(s);
    struct shared_message *body;
    enum call_turn turn;
    struct problem why = {""};
    uint64_t head, last = 0;
    enum status rc;

    /* The lease alarm ends the subscription (W-072): within an hour, if the
     * clock was set. */
    if (subscription_is_over(s))
        return leave_call_for(d, 60 * PAUSE_US);
    if (!topic_head(s->topic, &head))
        return leave_call_for(d, PAUSE_US);
    body = shared_messages_find(&all->messages, &wish, head);
    if (!shared_messages_have_room(&all->messages, body, d->call.is_suspect)) {
        if (body)
            shared_messages_settle(&all->messages, body);
        return wait_in(&all->starving[d->call.is_suspect], d);
    }
    if (!body) {
        rc = shared_messages_make(&all->messages, &body, &wish, &last, &why);
        if (rc == STATUS_AGAIN)
            return load_body(d, &wish);
        if (rc && rc != STATUS_GONE && rc != STATUS_NOT_FOUND)
            DIAG(DIAG_ERROR, "hub", "cannot read for a subscription",
                 diag_number("id", s->id),
                 diag_text("callback",
                           websub_origin(slice_of(s->callback)).text),
                 diag_text("error", why.text));
        if (rc)
            return give_up_body(d, rc, last);
        shared_messages_adopt(&all->messages, body);
    }
    turn = take_body(d, body);
    shared_messages_settle(&all->messages, body);
    return turn;
}

static enum call_turn
on_call_turn(struct call *call)
{
    return prepare_body(list_entry(call, struct delivery, call));
}

/* Gives the caller the decision that `prepare` postponed. */
static void
tell_caller(struct caller *caller, struct delivery *d, enum call_turn turn)
{
    if (turn != CALL_LATER)
        caller_go(caller, &d->call, turn == CALL_READY);
}

/* Continues the deliveries that waited for a load_body. */
static void
on_loaded(struct shared_messages *messages, const struct shared_loaded *loaded)
{
    struct deliveries *all = list_entry(messages, struct deliveries, messages);
    struct caller *caller = all->hub->caller;
    struct shared_message *body = loaded->message;

    if (body)
        shared_messages_adopt(messages, body);
    while (!list_is_empty(loaded->waiters)) {
        struct delivery *d =
            list_entry(loaded->waiters->next, struct delivery, node);
        struct shared_wish wish = wish_of(d->s);

        list_remove(&d->node);
        if (!body)
            tell_caller(caller, d,
                        give_up_body(d, loaded->status, loaded->last));
        else if (!shared_message_serves(body, &wish))
            tell_caller(caller, d,
                        prepare_body(d)); /* its terms have changed meanwhile */
        else if (d->call.is_suspect &&
                 !shared_messages_have_room(messages, body, true))
            wait_in(&all->starving[true], d);
        else
            tell_caller(caller, d, take_body(d, body));
    }
    if (body)
        shared_messages_settle(messages, body);
}

/* Retries the deliveries that wait for room, healthy ones first, while there is
 * room. */
static void
serve_starving(struct deliveries *all)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct list *list = &all->starving[is_suspect];

        while (!list_is_empty(list) &&
               shared_messages_have_room(&all->messages, NULL, is_suspect)) {
            struct delivery *d = list_entry(list->next, struct delivery, node);

            list_remove(&d->node);
            tell_caller(all->hub->caller, d, prepare_body(d));
        }
    }
    shared_messages_go_on(&all->messages);
}

/* Outcomes */

/* Gives up this range only, because the callback had its time (W-090). Without
 * a fixed range no call reached the callback, and nothing is lost. */
static void
give_up_range(struct subscription *s, uint64_t entries)
{
    if (s->range_last == 0) {
        forget_failures(s);
        return;
    }
    count_skipped(s, entries);
    metrics_add(METRIC_HUB_GIVEN_UP, 1);
    DIAG(DIAG_WARNING, "hub", "a delivery was given up",
         diag_number("id", s->id),
         diag_text("callback", websub_origin(slice_of(s->callback)).text),
         diag_number("after", s->after), diag_number("last", s->range_last),
         diag_text("error", s->history.last_error));
    move_cursor(s, s->range_last);
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
    move_cursor(s, s->range_last);
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
    struct deliveries *all = s->hub->deliveries;
    enum attempt_outcome outcome = attempt_judge(call, s->kind);
    uint64_t entries = 0;

    if (outcome == ATTEMPT_DELIVERED)
        observe_latency(s, d->body);
    else if (d->body) /* a call may end_badly before its turn comes */
        entries = count_entries(d->body);
    end_delivery(d);
    if (call->failure == CALL_MEMORY) { /* our fault, not the callback's */
        pause_delivery(s, PAUSE_US);
        serve_starving(all);
        return;
    }
    s->history.n_attempts++;
    metrics_add(METRIC_HUB_ATTEMPTS, 1);
    switch (outcome) {
    case ATTEMPT_DELIVERED:
        end_well(s, call);
        break;
    case ATTEMPT_ENDED:
        all->end_subscription(s, END_GONE); /* frees the subscription */
        break;
    case ATTEMPT_FAILED:
        end_badly(s, call, entries);
        break;
    }
    serve_starving(all);
}

static void
begin_delivery(struct subscription *s)
{
    struct delivery *d = calloc(1, sizeof(*d));

    if (!d) {
        pause_delivery(s, PAUSE_US);
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

    list_init(&s->node);
    s->range_form = attempt_form(s);
    if (s->topic->kind == TOPIC_FRAMEWORK)
        framework_listen(s->hub);
    else
        topic_listen(s->topic);
    if (topic_head(s->topic, &head) && s->after > head) {
        DIAG(DIAG_WARNING, "hub", "a subscription is ahead of its log",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->after), diag_number("last", head));
        move_cursor(s, head);
    }
    go_on(s);
}

static void
on_room(struct alarm *alarm)
{
    serve_starving(list_entry(alarm, struct deliveries, room));
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
delivery_cut(struct subscription *s)
{
    struct deliveries *all = s->hub->deliveries;
    struct delivery *d = s->delivery;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->node);
    forget_failures(s);
    s->last_begun_us = 0;
    if (!d)
        return;
    caller_cancel(s->hub->caller, &d->call);
    end_delivery(d);
    if (is_anybody_waiting(all)) {
        all->room.ring = on_room;
        caller_set_alarm(s->hub->caller, &all->room, clock_steady_us());
    }
}

void
delivery_look(struct subscription *s)
{
    if (s->delivery)
        return;
    check_form(s);
    go_on(s);
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
        go_on(list_entry(node, struct subscription, node));
    }
    if (!list_is_empty(&topic->waking))
        watched_mark(&topic->watched);
}

void
deliveries_wake(struct hub *hub)
{
    struct topic *topic;

    framework_look(hub);
    watcher_take(&hub->watcher);
    while ((topic = topic_next_marked(hub)))
        wake_resting(topic);
}

void
deliveries_turn(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    free_ended(all);
    while (!list_is_empty(&all->fixed)) {
        struct delivery *d = list_entry(all->fixed.next, struct delivery, node);

        list_remove(&d->node);
        tell_caller(hub->caller, d, make_attempt(d));
    }
}

/* Writes ranges once more, in the transaction of the turn in which the alarm
 * rings. */
static void
write_ranges(struct alarm *alarm)
{
    struct deliveries *all = list_entry(alarm, struct deliveries, again);

    all->is_again_set = false;
    while (!list_is_empty(&all->unkept)) {
        struct delivery *d =
            list_entry(all->unkept.next, struct delivery, node);

        hub_db_put_range(all->hub->db, d->s->id, d->s->after, d->s->range_last);
        wait_in(&all->fixed, d);
    }
}

void
deliveries_unkept(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    free_ended(all);
    list_move(&all->unkept, &all->fixed);
    if (!list_is_empty(&all->unkept) && !all->is_again_set) {
        all->is_again_set = true;
        all->again.ring = write_ranges;
        caller_set_alarm(hub->caller, &all->again,
                         clock_steady_us() + PAUSE_US);
    }
}

static void
do_job(struct shared_messages *messages, struct job *job)
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
    .work = do_job,
    .is_stopping = is_stopping,
    .loaded = on_loaded,
};

static void
wake_hub(struct watcher *watcher)
{
    hub_wake(list_entry(watcher, struct hub, watcher));
}

enum status
deliveries_open(struct hub *hub, end_subscription_fn *end, struct problem *why)
{
    struct deliveries *all = calloc(1, sizeof(*all));
    enum status rc = all ? framework_open(hub, why) : problem_memory(why);

    if (rc) {
        free(all);
        return rc;
    }
    all->hub = hub;
    all->end_subscription = end;
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
deliveries_close(struct hub *hub)
{
    struct deliveries *all = hub->deliveries;

    if (!all)
        return;
    free_ended(all);
    framework_close(hub);
    shared_messages_fini(&all->messages);
    free(all);
    hub->deliveries = NULL;
}

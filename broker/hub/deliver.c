#include "broker/hub/deliver.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include "broker/base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/attempt.h"
#include "broker/hub/backoff.h"
#include "broker/hub/bodies.h"
#include "broker/hub/framework.h"
#include "broker/hub/inside.h"
#include "broker/hub/loads.h"

/* How long what failed on our own side rests: a disk, memory. */
#define PAUSE_US ((int64_t)1000000)

struct deliveries {
    struct hub *hub;
    struct bodies bodies;
    struct loads loads;
    struct list starving[2]; /* their turn has come, but there is no room for
                                bodies: healthy ones, suspects */
    struct list fixed;       /* their ranges were written in this turn */
    struct list unkept;      /* ... in one of which nothing was kept */
    struct alarm again;      /* writes those once more */
    bool is_again_set;
    struct list ended; /* to be freed when nobody is in a call's function
                          any more */
};

/*
 * A delivery: from when its subscription is due until its outcome, one at most
 * of each. What it is in the list `node` is in:
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
    struct shared_body *body; /* held, as call.is_suspect says; or NULL */
    struct attempt *attempt;
    bool is_going;
};

static void begin(struct subscription *s);
static void go_on(struct subscription *s);
static void serve_starving(struct deliveries *all);

static const struct config *
config_of(const struct subscription *s)
{
    return registry_config(s->hub->registry);
}

/* Where it looks next. */
static uint64_t
start_of(const struct subscription *s)
{
    return s->reached > s->after ? s->reached : s->after;
}

/* Lets go of what a delivery has; it is freed at the end of the turn. */
static void
end_delivery(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (d->is_going)
        metrics_add(METRIC_HUB_IN_FLIGHT, -1);
    if (d->body)
        bodies_release(&all->bodies, d->body, d->call.is_suspect);
    d->body = NULL;
    attempt_free(d->attempt);
    d->attempt = NULL;
    list_remove(&d->node);
    list_append(&all->ended, &d->node);
    s->delivery = NULL;
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

/* When it is due */

static void
on_alarm(struct alarm *alarm)
{
    begin(list_entry(alarm, struct subscription, retry_alarm));
}

static void
begin_at(struct subscription *s, int64_t at_us)
{
    s->retry_alarm.ring = on_alarm;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, at_us);
}

static void
pause_for(struct subscription *s, int64_t us)
{
    begin_at(s, clock_steady_us() + us);
}

/* A range that was fixed is to be delivered whatever the head is. */
static bool
has_more(const struct subscription *s)
{
    uint64_t head;

    if (!topic_head(s->topic, &head))
        return false; /* it is about to be ended: hub_sets_changed */
    return s->range_last != 0 || start_of(s) < head;
}

/* Decides what comes next for a subscription of which nothing is under way. The
 * topic was listened to before its head is looked at here, so a later commit
 * finds those that rest. */
static void
go_on(struct subscription *s)
{
    int64_t next_us = s->last_begun_us + s->terms.interval_us;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->node);
    if (!has_more(s))
        list_append(&s->topic->resting, &s->node);
    else if (s->last_begun_us != 0 && s->range_last == 0 &&
             next_us > clock_steady_us())
        begin_at(s, next_us);
    else
        begin(s);
}

/* Moving the cursor without a delivery */

static void
forget_failures(struct subscription *s)
{
    s->failures = 0;
    s->failing_since_us = 0;
}

static void
move(struct subscription *s, uint64_t after)
{
    s->after = s->reached = after;
    s->range_last = 0;
    s->has_moved = true;
    forget_failures(s);
}

static void
count_skipped(struct subscription *s, uint64_t n)
{
    s->n_skipped += n;
    metrics_add(METRIC_HUB_SKIPPED, (int64_t)n);
}

/* What follows the cursor is no longer retained: it goes on at the earliest,
 * and the next message's `after` shows the hole. What a filter was known to let
 * through nothing of is not missed. */
static void
move_to_earliest(struct subscription *s, uint64_t earliest)
{
    uint64_t start = start_of(s);

    if (earliest < start)
        earliest = start;
    if (earliest > start) {
        count_skipped(s, earliest - start);
        DIAG(DIAG_WARNING, "hub",
             "a subscription was behind what is retained and is moved on",
             diag_text("callback", s->callback), diag_number("after", s->after),
             diag_number("to", earliest));
    }
    move(s, earliest);
}

/* The callback had its time (W-090): only this range is given up, if there was
 * one: a callback that cannot even be called has been shown none. */
static void
give_up(struct subscription *s, uint64_t entries)
{
    if (s->range_last == 0) {
        forget_failures(s);
        return;
    }
    count_skipped(s, entries);
    metrics_add(METRIC_HUB_GIVEN_UP, 1);
    DIAG(DIAG_WARNING, "hub", "a delivery was given up",
         diag_text("callback", s->callback), diag_number("after", s->after),
         diag_number("last", s->range_last), diag_text("error", s->last_error));
    move(s, s->range_last);
}

/* Outcomes */

/* From the commit to the 2xx; what was committed before the subscription came
 * is no news, and says nothing of us. */
static void
observe(const struct subscription *s, const struct shared_body *body)
{
    int64_t age_us = clock_now_us() - s->created_us;
    int64_t took_us = clock_steady_us() - body->committed_us;

    if (s->failures == 0 && body->committed_us > 0 && took_us < age_us)
        metrics_observe_us(METRIC_HUB_LATENCY, took_us);
}

static void
succeed(struct subscription *s, const struct call *call)
{
    s->n_deliveries++;
    s->last_success_us = clock_now_us();
    s->last_status = call->status;
    s->last_error[0] = '\0';
    metrics_add(METRIC_HUB_DELIVERIES, 1);
    move(s, s->range_last);
    go_on(s);
}

static uint32_t
random_number(void)
{
    uint32_t number;

    if (RAND_bytes((unsigned char *)&number, sizeof(number)) != 1)
        return UINT32_MAX / 2; /* the middle will do: no secret */
    return number;
}

/* A renewal may have brought another filter: then a range that was tried is no
 * more, for it would have other bytes. What is fixed next has another id. That
 * stands in hub.db with the new terms, or soon after. */
static void
look_at_form(struct subscription *s)
{
    if (s->range_last == 0 || s->range_form == attempt_form(s))
        return;
    s->range_last = 0;
    records_range(s->hub->records, s->id, s->after, 0);
}

/* It failed: it is tried again later, or was for the last time. */
static void
fail(struct subscription *s, const struct call *call, uint64_t entries)
{
    const struct config *config = config_of(s);
    struct backoff backoff = {config->hub_retry_first_us,
                              config->hub_retry_max_us};
    int64_t now_us = clock_steady_us(), end_us;

    s->n_failed++;
    s->failures++;
    if (s->failing_since_us == 0)
        s->failing_since_us = now_us;
    s->last_failure_us = clock_now_us();
    s->last_status = call->status;
    attempt_explain(call, s->last_error, sizeof(s->last_error));
    metrics_add(METRIC_HUB_FAILURES, 1);

    end_us = s->failing_since_us + config->hub_give_up_us;
    if (now_us >= end_us) {
        give_up(s, entries);
        go_on(s);
        return;
    }
    look_at_form(s);
    begin_at(s,
             backoff_next(now_us,
                          backoff_pause(&backoff, s->failures, random_number()),
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
        observe(s, d->body);
    else if (d->body) /* it may have failed before its turn came */
        entries = shared_body_entries(d->body);
    end_delivery(d);
    if (call->failure == CALL_MEMORY) { /* ours, not the callback's */
        pause_for(s, PAUSE_US);
        serve_starving(all);
        return;
    }
    s->n_attempts++;
    metrics_add(METRIC_HUB_ATTEMPTS, 1);
    switch (outcome) {
    case ATTEMPT_DELIVERED:
        succeed(s, call);
        break;
    case ATTEMPT_ENDED:
        subscription_end(s, END_GONE); /* it is freed */
        break;
    case ATTEMPT_FAILED:
        fail(s, call, entries);
        break;
    }
    serve_starving(all);
}

/* Its turn has come */

/* It is not to be made now; its subscription goes on as was decided. */
static enum call_turn
leave(struct delivery *d)
{
    end_delivery(d);
    return CALL_NOT;
}

/* It would be made, but something of ours failed. */
static enum call_turn
leave_for(struct delivery *d, int64_t pause_us)
{
    pause_for(d->s, pause_us);
    return leave(d);
}

static enum call_turn
wait_in(struct list *list, struct delivery *d)
{
    list_remove(&d->node);
    list_append(list, &d->node);
    return CALL_LATER;
}

static struct topic_wish
wish_of(const struct subscription *s)
{
    return (struct topic_wish){
        .after = s->after,
        .upto = s->range_last ? s->range_last : UINT64_MAX,
        .filter = s->filter,
        .reached = s->reached,
        .is_plain = s->terms.is_simple,
        .patience = LOG_MEMORY,
    };
}

/* Headers and body are there. */
static enum call_turn
make_ready(struct delivery *d)
{
    if (attempt_make(&d->attempt, d->s, d->body))
        return leave_for(d, PAUSE_US);
    d->call.headers = d->attempt->headers;
    d->call.body = shared_body_slice(d->body);
    d->is_going = true;
    metrics_add(METRIC_HUB_IN_FLIGHT, 1);
    if (d->s->failures == 0)
        d->s->last_begun_us = clock_steady_us();
    return CALL_READY;
}

/* The range is fixed, once for all tries. */
static enum call_turn
fix(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (s->range_last == d->body->last)
        return make_ready(d); /* it stands in hub.db */
    s->range_last = d->body->last;
    s->range_form = attempt_form(s);
    records_range(s->hub->records, s->id, s->after, s->range_last);
    return wait_in(&all->fixed, d);
}

static enum call_turn
load(struct delivery *d, struct topic_wish wish)
{
    struct deliveries *all = d->s->hub->deliveries;

    wish.patience = LOG_DISK;
    list_remove(&d->node);
    if (loads_begin(&all->loads, d->s->topic, &wish, d->call.is_suspect,
                    &d->node))
        return leave_for(d, PAUSE_US);
    return CALL_LATER;
}

/* Nothing passes in what was looked at. A long way is looked through elsewhere,
 * step by step. */
static enum call_turn
pass_over(struct delivery *d, uint64_t last)
{
    struct subscription *s = d->s;
    uint64_t head;

    if (last > s->reached)
        s->reached = last;
    if (topic_head(s->topic, &head) && s->reached < head &&
        s->topic->kind != TOPIC_RELAY)
        return load(d, wish_of(s));
    leave(d);
    go_on(s);
    return CALL_NOT;
}

/* It has a body for what it wants. */
static enum call_turn
take(struct delivery *d, struct shared_body *body)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (body->size == 0 && s->range_last == 0) {
        if (body->is_full && body->last == body->start)
            return leave_for(d, PAUSE_US); /* there is more, but none came */
        return pass_over(d, body->last);
    }
    if (s->range_last != 0 &&
        (body->size == 0 || body->last != s->range_last)) {
        /* The log is not what it was. It goes on with a range, and an id, of
         * its own. */
        DIAG(DIAG_ERROR, "hub", "a delivery cannot be repeated as it was",
             diag_text("callback", s->callback), diag_number("after", s->after),
             diag_number("last", s->range_last));
        s->range_last = 0;
        return leave_for(d, PAUSE_US);
    }
    bodies_hold(&all->bodies, body, d->call.is_suspect);
    d->body = body;
    return fix(d);
}

/* It could not be read: for what reason, and what then. */
static enum call_turn
not_read(struct delivery *d, enum status rc, uint64_t last)
{
    struct subscription *s = d->s;

    if (rc != STATUS_GONE)
        return leave_for(d, PAUSE_US); /* or its set is gone, and it will be */
    move_to_earliest(s, last);
    leave(d);
    go_on(s);
    return CALL_NOT;
}

/* Finds or makes the body. */
static enum call_turn
advance(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;
    struct topic_wish wish = wish_of(s);
    struct shared_body *body;
    enum call_turn turn;
    struct problem why = {""};
    uint64_t head, last = 0;
    enum status rc;

    if (s->lease_end_us <= clock_now_us()) /* its alarm ends it (W-072) */
        return leave_for(d, PAUSE_US);
    if (!topic_head(s->topic, &head))
        return leave_for(d, PAUSE_US);
    body = bodies_find(&all->bodies, s->topic, &wish, head);
    if (!bodies_have_room(&all->bodies, body, d->call.is_suspect)) {
        if (body)
            bodies_settle(&all->bodies, body);
        return wait_in(&all->starving[d->call.is_suspect], d);
    }
    if (!body) {
        rc = shared_body_make(&body, s->topic, &wish, &last, &why);
        if (rc == STATUS_AGAIN)
            return load(d, wish);
        if (rc && rc != STATUS_GONE && rc != STATUS_NOT_FOUND)
            DIAG(DIAG_ERROR, "hub", "cannot read for a subscription",
                 diag_text("callback", s->callback),
                 diag_text("error", why.text));
        if (rc)
            return not_read(d, rc, last);
        bodies_adopt(&all->bodies, body);
    }
    turn = take(d, body);
    bodies_settle(&all->bodies, body);
    return turn;
}

static enum call_turn
on_prepare(struct call *call)
{
    return advance(list_entry(call, struct delivery, call));
}

/* Tells the caller what was decided later than in `prepare`. */
static void
tell(struct caller *caller, struct delivery *d, enum call_turn turn)
{
    if (turn != CALL_LATER)
        caller_go(caller, &d->call, turn == CALL_READY);
}

/* A load has ended. */
static void
on_load(struct shared_body *body, enum status rc, uint64_t last,
        struct list *waiters, void *user)
{
    struct deliveries *all = user;
    struct caller *caller = all->hub->caller;

    if (body)
        bodies_adopt(&all->bodies, body);
    while (!list_is_empty(waiters)) {
        struct delivery *d = list_entry(waiters->next, struct delivery, node);
        struct topic_wish wish = wish_of(d->s);

        list_remove(&d->node);
        if (!body)
            tell(caller, d, not_read(d, rc, last));
        else if (!shared_body_serves(body, d->s->topic, &wish))
            tell(caller, d, advance(d)); /* its terms are others meanwhile */
        else if (d->call.is_suspect &&
                 !bodies_have_room(&all->bodies, body, true))
            wait_in(&all->starving[true], d);
        else
            tell(caller, d, take(d, body));
    }
    if (body)
        bodies_settle(&all->bodies, body);
}

/* Some room was given back: who waits for it tries again, as long as there is;
 * healthy ones first. */
static void
serve_starving(struct deliveries *all)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct list *list = &all->starving[is_suspect];

        while (!list_is_empty(list) &&
               bodies_have_room(&all->bodies, NULL, is_suspect)) {
            struct delivery *d = list_entry(list->next, struct delivery, node);

            list_remove(&d->node);
            tell(all->hub->caller, d, advance(d));
        }
    }
    loads_go_on(&all->loads);
}

static void
begin(struct subscription *s)
{
    struct delivery *d = calloc(1, sizeof(*d));

    if (!d) {
        pause_for(s, PAUSE_US);
        return;
    }
    list_init(&d->node);
    d->s = s;
    d->call.method = CALL_POST;
    d->call.url = s->callback;
    d->call.timeout_us = config_of(s)->hub_timeout_us;
    d->call.max_answer = ATTEMPT_ANSWER_MAX;
    d->call.is_suspect = s->failures > 0;
    d->call.prepare = on_prepare;
    d->call.done = on_done;
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
    if (topic_head(s->topic, &head) && s->after > head) {
        DIAG(DIAG_WARNING, "hub", "a subscription is ahead of its log",
             diag_text("callback", s->callback), diag_number("after", s->after),
             diag_number("last", head));
        move(s, head);
    }
    go_on(s);
}

void
deliver_cut(struct subscription *s)
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
    serve_starving(all);
}

void
deliver_look(struct subscription *s)
{
    s->reached = s->after; /* that was of another filter, perhaps */
    if (s->delivery)
        return;
    look_at_form(s);
    go_on(s);
}

/* Those who rest in a topic that has news. */
static void
wake_resting(struct topic *topic)
{
    struct list all;

    list_init(&all);
    list_move(&all, &topic->resting);
    while (!list_is_empty(&all))
        go_on(list_entry(all.next, struct subscription, node));
}

void
deliver_wake(struct hub *hub)
{
    struct topic *taken, *topic;

    framework_look(hub);
    taken = topic_take_dirty(hub);
    while ((topic = topic_next_dirty(&taken)))
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
        tell(hub->caller, d, make_ready(d));
    }
}

/* Ranges once more, for the transaction of the turn that rings. */
static void
write_again(struct alarm *alarm)
{
    struct deliveries *all = list_entry(alarm, struct deliveries, again);

    all->is_again_set = false;
    while (!list_is_empty(&all->unkept)) {
        struct delivery *d =
            list_entry(all->unkept.next, struct delivery, node);

        records_range(all->hub->records, d->s->id, d->s->after,
                      d->s->range_last);
        wait_in(&all->fixed, d);
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
                         clock_steady_us() + PAUSE_US);
    }
}

enum status
deliver_open(struct hub *hub, struct problem *why)
{
    struct deliveries *all = calloc(1, sizeof(*all));

    if (!all)
        return problem(why, STATUS_MEMORY, "no memory for deliveries");
    all->hub = hub;
    bodies_init(&all->bodies, registry_config(hub->registry)->hub_body_bytes);
    loads_init(&all->loads, hub->caller, &all->bodies, on_load, all);
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
    loads_fini(&all->loads);
    bodies_fini(&all->bodies);
    free(all);
    hub->deliveries = NULL;
}

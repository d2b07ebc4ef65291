#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/delivery.h"

/* A delivery's turn has come */

/* Ends a delivery without a call; the subscription continues as decided. */
static enum call_turn
leave(struct delivery *d)
{
    delivery_end(d);
    return CALL_NOT;
}

/* Ends a delivery because of a failure of our own, and sets a new try. */
static enum call_turn
leave_for(struct delivery *d, int64_t pause_us)
{
    delivery_pause(d->s, pause_us);
    return leave(d);
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
enum call_turn
prepare_send(struct delivery *d)
{
    if (attempt_make(&d->attempt, d->s, d->body))
        return leave_for(d, DELIVERY_PAUSE_US);
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
fix(struct delivery *d)
{
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;

    if (s->range_last == d->body->last)
        return prepare_send(d); /* hub.db has the range */
    s->range_last = d->body->last;
    s->range_form = attempt_form(s);
    hub_db_put_range(s->hub->db, s->id, s->after, s->range_last);
    return delivery_wait_in(&all->fixed, d);
}

static enum call_turn
load(struct delivery *d, const struct shared_wish *wish)
{
    struct deliveries *all = d->s->hub->deliveries;

    list_remove(&d->node);
    if (shared_messages_load(&all->messages, wish, d->call.is_suspect,
                             &d->node))
        return leave_for(d, DELIVERY_PAUSE_US);
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
        return load(d, &wish);
    }
    leave(d);
    delivery_go_on(s);
    return CALL_NOT;
}

/* Takes a body that serves the delivery's wish. */
static enum call_turn
take(struct delivery *d, struct shared_message *body)
{
    struct subscription *s = d->s;

    if (body->size == 0 && s->range_last == 0) {
        if (body->is_full && body->last == shared_wish_start(&body->wish))
            return leave_for(
                d, DELIVERY_PAUSE_US); /* more exists, but none was read */
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
        return leave_for(d, DELIVERY_PAUSE_US);
    }
    delivery_hold(d, body);
    return fix(d);
}

/* Continues after a body could not be read. */
static enum call_turn
not_read(struct delivery *d, enum status rc, uint64_t last)
{
    struct subscription *s = d->s;

    if (rc != STATUS_GONE)
        return leave_for(
            d, DELIVERY_PAUSE_US); /* if the set is gone, it ends soon */
    outcome_skip(s, last);
    leave(d);
    delivery_go_on(s);
    return CALL_NOT;
}

/* Finds or makes the body. */
static enum call_turn
advance(struct delivery *d)
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
        return leave_for(d, 60 * DELIVERY_PAUSE_US);
    if (!topic_head(s->topic, &head))
        return leave_for(d, DELIVERY_PAUSE_US);
    body = shared_messages_find(&all->messages, &wish, head);
    if (!shared_messages_have_room(&all->messages, body, d->call.is_suspect)) {
        if (body)
            shared_messages_settle(&all->messages, body);
        return delivery_wait_in(&all->starving[d->call.is_suspect], d);
    }
    if (!body) {
        rc = shared_messages_make(&all->messages, &body, &wish, &last, &why);
        if (rc == STATUS_AGAIN)
            return load(d, &wish);
        if (rc && rc != STATUS_GONE && rc != STATUS_NOT_FOUND)
            DIAG(DIAG_ERROR, "hub", "cannot read for a subscription",
                 diag_number("id", s->id),
                 diag_text("callback",
                           websub_origin(slice_of(s->callback)).text),
                 diag_text("error", why.text));
        if (rc)
            return not_read(d, rc, last);
        shared_messages_adopt(&all->messages, body);
    }
    turn = take(d, body);
    shared_messages_settle(&all->messages, body);
    return turn;
}

enum call_turn
prepare_call(struct call *call)
{
    return advance(list_entry(call, struct delivery, call));
}

/* Gives the caller the decision that `prepare` postponed. */
void
prepare_tell(struct caller *caller, struct delivery *d, enum call_turn turn)
{
    if (turn != CALL_LATER)
        caller_go(caller, &d->call, turn == CALL_READY);
}

/* Continues the deliveries that waited for a load. */
void
prepare_loaded(struct shared_messages *messages,
               const struct shared_loaded *loaded)
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
            prepare_tell(caller, d, not_read(d, loaded->status, loaded->last));
        else if (!shared_message_serves(body, &wish))
            prepare_tell(caller, d,
                         advance(d)); /* its terms have changed meanwhile */
        else if (d->call.is_suspect &&
                 !shared_messages_have_room(messages, body, true))
            delivery_wait_in(&all->starving[true], d);
        else
            prepare_tell(caller, d, take(d, body));
    }
    if (body)
        shared_messages_settle(messages, body);
}

/* Retries the deliveries that wait for room, healthy ones first, while there is
 * room. */
void
prepare_starving(struct deliveries *all)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct list *list = &all->starving[is_suspect];

        while (!list_is_empty(list) &&
               shared_messages_have_room(&all->messages, NULL, is_suspect)) {
            struct delivery *d = list_entry(list->next, struct delivery, node);

            list_remove(&d->node);
            prepare_tell(all->hub->caller, d, advance(d));
        }
    }
    shared_messages_go_on(&all->messages);
}

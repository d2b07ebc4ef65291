#include <openssl/rand.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/delivery.h"

/* Moving the cursor without a delivery */

void
outcome_forget(struct subscription *s)
{
    s->failures = 0;
    s->failing_since_us = 0;
}

void
outcome_move(struct subscription *s, uint64_t after)
{
    s->after = s->reached = after;
    s->range_last = 0;
    list_remove(&s->moved);
    list_append(&s->hub->moved, &s->moved);
    outcome_forget(s);
}

static void
count_skipped(struct subscription *s, uint64_t n)
{
    s->n_skipped += n;
    metrics_add(METRIC_HUB_SKIPPED, (int64_t)n);
}

/* Moves the cursor to the earliest retained entry; the next message's `after`
 * shows the hole. Entries that the filter is known not to pass do not count. */
void
outcome_skip(struct subscription *s, uint64_t earliest)
{
    uint64_t start = subscription_start(s);

    if (earliest < start)
        earliest = start;
    if (earliest > start) {
        count_skipped(s, earliest - start);
        DIAG(DIAG_WARNING, "hub",
             "a subscription was behind what is retained and is moved on",
             diag_number("id", s->id),
             diag_text("callback", websub_origin(slice_of(s->callback)).text),
             diag_number("after", s->after), diag_number("to", earliest));
    }
    outcome_move(s, earliest);
}

/* Gives up this range only, because the callback had its time (W-090). Without
 * a fixed range no call reached the callback, and nothing is lost. */
static void
give_up(struct subscription *s, uint64_t entries)
{
    if (s->range_last == 0) {
        outcome_forget(s);
        return;
    }
    count_skipped(s, entries);
    metrics_add(METRIC_HUB_GIVEN_UP, 1);
    DIAG(DIAG_WARNING, "hub", "a delivery was given up",
         diag_number("id", s->id),
         diag_text("callback", websub_origin(slice_of(s->callback)).text),
         diag_number("after", s->after), diag_number("last", s->range_last),
         diag_text("error", s->last_error));
    outcome_move(s, s->range_last);
}

/* Outcomes */

/* Measures the time from the commit to the 2xx. Entries from before the
 * subscription say nothing about our speed, and are not measured. */
static void
observe(const struct subscription *s, const struct shared_message *body)
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
    outcome_move(s, s->range_last);
    delivery_go_on(s);
}

static uint32_t
random_number(void)
{
    uint32_t number;

    if (RAND_bytes((unsigned char *)&number, sizeof(number)) != 1)
        return UINT32_MAX / 2; /* the middle: no secret is needed */
    return number;
}

/* Forgets a tried range if a renewal has changed its form: with another filter
 * the range would have other bytes. The next range has another ID. hub.db has
 * this with the new terms, or soon after. */
void
outcome_look_at_form(struct subscription *s)
{
    if (s->range_last == 0 || s->range_form == attempt_form(s))
        return;
    s->range_last = 0;
    hub_db_put_range(s->hub->db, s->id, s->after, 0);
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
fail(struct subscription *s, const struct call *call, uint64_t entries)
{
    const struct config *config = s->hub->config;
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
        delivery_go_on(s);
        return;
    }
    outcome_look_at_form(s);
    delivery_begin_at(
        s, backoff_next(now_us,
                        backoff_pause(&backoff, s->failures, random_number()),
                        attempt_retry_after(call), end_us));
}

void
outcome_done(struct call *call)
{
    struct delivery *d = list_entry(call, struct delivery, call);
    struct subscription *s = d->s;
    struct deliveries *all = s->hub->deliveries;
    enum attempt_outcome outcome = attempt_judge(call, s->kind);
    uint64_t entries = 0;

    if (outcome == ATTEMPT_DELIVERED)
        observe(s, d->body);
    else if (d->body) /* a call may fail before its turn comes */
        entries = count_entries(d->body);
    delivery_end(d);
    if (call->failure == CALL_MEMORY) { /* our fault, not the callback's */
        delivery_pause(s, DELIVERY_PAUSE_US);
        prepare_starving(all);
        return;
    }
    s->n_attempts++;
    metrics_add(METRIC_HUB_ATTEMPTS, 1);
    switch (outcome) {
    case ATTEMPT_DELIVERED:
        succeed(s, call);
        break;
    case ATTEMPT_ENDED:
        subscription_end(s, END_GONE); /* frees the subscription */
        break;
    case ATTEMPT_FAILED:
        fail(s, call, entries);
        break;
    }
    prepare_starving(all);
}

/*
 * verify.c - requests, from their order to their end.
 *
 *   verify_take --> fresh --(its turn is kept)--> due --> called --> confirmed
 *                     |                            ^        |   \--> failed
 *                     | (it is not kept)           +--alarm-+ transport error,
 *                     v                                       REQUEST_TRIES
 *                   forgotten, the order is refused
 *
 * A fresh request changes nothing yet. When its turn is kept, the older request
 * of its pair is dropped (one transaction changes both rows). If the commit
 * fails, the older one stays at work.
 *
 * An unsubscription is verified like a subscription, whether a subscription
 * exists or not (W-062): the answer must not show strangers which callbacks are
 * subscribed, and a client that waits for the verification gets it. If none
 * exists the confirmation changes nothing.
 *
 * A failure causes no further call: the callback knows its own answer.
 */
#include "broker/hub/verify.h"

#include <stdio.h>

#include <openssl/rand.h>

#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/inside.h"
#include "broker/hub/requests.h"

/* The end of a request */

static void
end(struct request *r)
{
    records_request_gone(r->hub->records, r->id);
    request_forget(r);
}

static void
deny(struct request *r, struct slice reason)
{
    verify_deny(r->hub, slice_of(r->callback), &r->terms,
                slice_of(r->topic_url), reason);
    end(r);
}

void
verify_end(struct request *r)
{
    deny(r, SLICE("the operator of the hub has refused the request"));
}

void
verify_topic_gone(struct hub *hub, struct topic *topic)
{
    struct list *node, *after;

    list_foreach (node, after, &hub->requests->all) {
        struct request *r = list_entry(node, struct request, node);

        if (r->topic == topic)
            deny(r, VERIFY_TOPIC_GONE);
    }
}

static void
confirm(struct request *r)
{
    struct hub *hub = r->hub;
    struct slice callback = slice_of(r->callback);
    struct subscription *s;
    struct problem why = {""};
    uint64_t head;

    metrics_add(METRIC_HUB_VERIFICATIONS, 1);
    if (r->mode == WEBSUB_UNSUBSCRIBE) {
        s = subscription_find(hub, r->topic, SUBSCRIPTION_CALLBACK, callback);
        if (s)
            subscription_end(s, END_UNSUBSCRIBED);
    } else if (!topic_head(r->topic, &head)) {
        deny(r, VERIFY_TOPIC_GONE);
        return;
    } else if (subscription_confirm(hub, r->topic, callback,
                                    SUBSCRIPTION_CALLBACK, &r->terms,
                                    r->asked_us + r->terms.lease_us,
                                    r->has_after, r->after, &why)) {
        deny(r, slice_of(why.text));
        return;
    }
    end(r);
}

static void
fail(struct request *r, const char *reason)
{
    DIAG(DIAG_INFO, "hub", "a callback did not confirm",
         diag_number("id", r->id),
         diag_text("callback", websub_origin(slice_of(r->callback)).text),
         diag_text("mode", websub_mode_name(r->mode)),
         diag_text("error", reason));
    metrics_add(METRIC_HUB_VERIFICATIONS_FAILED, 1);
    end(r);
}

/* Calling */

/* W-055: true for any 2xx whose body is exactly the challenge. The caller reads
 * one byte more than that, to detect a longer body. */
static bool
is_confirmation(const struct request *r, const struct call *call)
{
    return call->status / 100 == 2 && !call->is_cut &&
           slice_equal(call->answer,
                       (struct slice){r->challenge, WEBSUB_CHALLENGE_SIZE});
}

static void ask(struct request *r);

static void
on_alarm(struct alarm *alarm)
{
    ask(list_entry(alarm, struct request, alarm));
}

static void
on_answer(struct call *call)
{
    struct request *r = list_entry(call, struct request, call);
    int64_t at = request_next_try(r->hub, call, r->tries);
    char reason[200];

    if (at > 0) {
        r->alarm.ring = on_alarm;
        caller_set_alarm(r->hub->caller, &r->alarm, at);
    } else if (call->failure != CALL_ANSWERED) {
        snprintf(reason, sizeof(reason), "%s", call->why);
        fail(r, reason);
    } else if (is_confirmation(r, call)) {
        confirm(r);
    } else {
        snprintf(reason, sizeof(reason),
                 "the answer is %u, and not 2xx with the challenge as body",
                 call->status);
        fail(r, reason);
    }
}

/* The call's turn has come: the lease counts from now (W-054). */
static enum call_turn
on_ready(struct call *call)
{
    struct request *r = list_entry(call, struct request, call);

    r->asked_us = clock_now_us();
    return CALL_READY;
}

/* W-053: makes 256 random bits, new for each try. */
static bool
make_challenge(struct request *r)
{
    unsigned char bytes[WEBSUB_CHALLENGE_SIZE / 2];

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(r->challenge + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static void
ask(struct request *r)
{
    r->tries++;
    buf_clear(&r->url);
    if (!make_challenge(r)) {
        fail(r, "there are no random numbers");
        return;
    }
    websub_verification_url(&r->url, slice_of(r->callback), r->mode,
                            slice_of(r->topic_url), slice_of(r->challenge),
                            (uint64_t)(r->terms.lease_us / 1000000));
    buf_add(&r->url, "", 1);
    if (r->url.failed) {
        fail(r, NO_MEMORY);
        return;
    }
    r->call = (struct call){
        .method = CALL_GET,
        .url = r->url.data,
        .timeout_us = r->hub->config->hub_timeout_us,
        .max_answer = WEBSUB_CHALLENGE_SIZE + 1,
        .also = hub_also(r->hub, &r->terms),
        .is_unproven = true,
        .prepare = on_ready,
        .done = on_answer,
    };
    caller_start(r->hub->caller, &r->call);
}

/* Forgets older requests of the same pair: the transaction that kept this
 * request has deleted their rows. */
static void
replace_older(struct request *r)
{
    const struct callback_table *pairs = &r->hub->requests->pairs;
    struct pair *pair =
                    callback_table_find(pairs, r->topic, slice_of(r->callback)),
                *next;

    for (; pair; pair = next) {
        struct request *other = list_entry(pair, struct request, pair);

        next = callback_table_same(pairs, pair);
        if (other->id < r->id)
            request_forget(other);
    }
}

void
verify_turn(struct hub *hub)
{
    struct requests *all = hub->requests;
    struct list *node;

    deny_turn(all);

    /* From the newest on: an older request of the same pair may be fresh,
     * too. */
    while (!list_is_empty(&all->fresh)) {
        struct request *r = list_entry(all->fresh.prev, struct request, turn);

        list_remove(&r->turn);
        list_prepend(&all->due, &r->turn);
        replace_older(r);
    }
    while ((node = list_first(&all->due))) {
        struct request *r = list_entry(node, struct request, turn);

        list_remove(node);
        if (r->terms.is_simple && hub->config->hub_trust_simple) {
            r->asked_us = clock_now_us();
            confirm(r);
        } else {
            ask(r);
        }
    }
}

void
verify_lost(struct hub *hub)
{
    struct list *node;

    while ((node = list_first(&hub->requests->fresh)))
        request_forget(list_entry(node, struct request, turn));
}

enum status
verify_resume(struct hub *hub, struct topic *topic, struct record *record,
              struct problem *why)
{
    struct request *r;
    enum status rc =
        request_enter(hub, record->id, topic, record->topic_url,
                      record->callback, record->from, &record->terms, &r, why);

    if (rc)
        return rc;
    r->mode = record->mode;
    r->has_after = record->has_after;
    r->after = record->after;
    r->taken_us = record->taken_us;
    list_append(&hub->requests->due, &r->turn);
    return STATUS_OK;
}

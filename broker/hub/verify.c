/*
 * verify.c - requests, from their order to their end.
 *
 *   verify_take --> fresh --(its turn is kept)--> due --> called --> confirmed
 *                     |                            ^        |   \--> failed
 *                     | (it is not kept)           +--alarm-+ transport error,
 *                     v                                       REQUEST_TRIES
 *                   forgotten, the order is refused
 *
 * A fresh request changes nothing yet: the older one of its pair is dropped
 * when the new one is kept (their rows change in one transaction), so that a
 * turn that is not kept leaves the older one as it was, at work.
 *
 * An unsubscription is verified like a subscription, whether there is one or
 * not (W-062): the answer must not tell strangers who is subscribed, and
 * whoever waits for its verification gets it. Confirmed, it changes nothing
 * where there is nothing.
 *
 * A failure tells the callback nothing more: it knows what it answered.
 */
#include "broker/hub/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/rand.h>

#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/inside.h"
#include "broker/hub/order.h"

/* In all, per request and per denial. */
#define REQUEST_TRIES 3

/* Two URLs, encoded, and some parameters. */
#define URL_MAX (8 * WEBSUB_URL_MAX)

#define HOST_MAX (WEBSUB_URL_MAX + 16)

struct requests {
    struct list all;   /* request->node, in order of ids */
    struct list fresh; /* request->turn: taken in this turn */
    struct list due;   /* request->turn: to be called at its end */
    size_t n;
    struct pairs pairs;
    struct tallies hosts, froms;
    struct list denials;
    size_t n_denials;
};

struct denial {
    struct list node;
    struct hub *hub;
    struct call call;
    struct alarm alarm;
    unsigned tries;
    struct buf url;
};

struct requests *
requests_new(void)
{
    struct requests *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    list_init(&all->all);
    list_init(&all->fresh);
    list_init(&all->due);
    list_init(&all->denials);
    tallies_init(&all->hosts);
    tallies_init(&all->froms);
    if (pairs_init(&all->pairs, REQUESTS_MAX)) {
        free(all);
        return NULL;
    }
    return all;
}

/* A try that came to no answer: when is the next? 0: there is none. An address
 * that may not be called is no error of transport. */
static int64_t
next_try(const struct hub *hub, const struct call *call, unsigned tries)
{
    if (call->failure == CALL_ANSWERED || call->failure == CALL_REFUSED ||
        tries >= REQUEST_TRIES)
        return 0;
    return clock_steady_us() + (hub->config->hub_retry_first_us << (tries - 1));
}

/* Denials */

static void
free_denial(struct denial *d)
{
    list_remove(&d->node);
    d->hub->requests->n_denials--;
    buf_fini(&d->url);
    free(d);
}

static void
tell_denial(struct denial *d)
{
    d->tries++;
    d->call.is_suspect = d->tries > 1;
    caller_start(d->hub->caller, &d->call);
}

static void
on_denial_alarm(struct alarm *alarm)
{
    tell_denial(list_entry(alarm, struct denial, alarm));
}

static void
on_denial_told(struct call *call)
{
    struct denial *d = list_entry(call, struct denial, call);
    int64_t at = next_try(d->hub, call, d->tries);

    if (at > 0)
        caller_set_alarm(d->hub->caller, &d->alarm, at);
    else
        free_denial(d);
}

void
verify_deny(struct hub *hub, struct slice callback, struct slice topic_url,
            struct slice reason)
{
    struct denial *d = NULL;

    if (hub->requests->n_denials < DENIALS_MAX)
        d = calloc(1, sizeof(*d));
    if (!d) {
        diag(DIAG_WARNING, "hub",
             "a callback was not told that it is denied: too many are");
        return;
    }
    d->hub = hub;
    list_append(&hub->requests->denials, &d->node);
    hub->requests->n_denials++;
    buf_init(&d->url, URL_MAX);
    websub_denial_url(&d->url, callback, topic_url, reason);
    buf_add(&d->url, "", 1);
    if (d->url.failed) {
        free_denial(d);
        return;
    }
    d->alarm.ring = on_denial_alarm;
    d->call.method = CALL_GET;
    d->call.url = d->url.data;
    d->call.timeout_us = hub->config->hub_timeout_us;
    d->call.done = on_denial_told;
    tell_denial(d);
}

/* The end of a request */

/* Out of all tables, and freed; what hub.db has of it is not touched. */
static void
forget(struct request *r)
{
    struct hub *hub = r->hub;

    if (hub->caller) { /* else nothing was begun */
        caller_cancel(hub->caller, &r->call);
        caller_clear_alarm(hub->caller, &r->alarm);
    }
    list_remove(&r->node);
    list_remove(&r->turn);
    hub->requests->n--;
    pairs_leave(&r->pair);
    tally_leave(r->of_host);
    tally_leave(r->of_from);
    r->topic->n_requests--;
    topic_release(r->topic);
    terms_fini(&r->terms);
    buf_fini(&r->url);
    free(r->topic_url);
    free(r->callback);
    free(r);
}

static void
end(struct request *r)
{
    records_request_gone(r->hub->records, r->id);
    forget(r);
}

static void
deny(struct request *r, struct slice reason)
{
    verify_deny(r->hub, slice_of(r->callback), slice_of(r->topic_url), reason);
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
            deny(r, SLICE("the topic is no more"));
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
        s = subscription_find(hub, r->topic, callback);
        if (s)
            subscription_end(s, END_UNSUBSCRIBED);
    } else if (!topic_head(r->topic, &head)) {
        deny(r, SLICE("the topic is no more"));
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
    DIAG(DIAG_DEBUG, "hub", "a request was not confirmed",
         diag_text("callback", r->callback),
         diag_text("mode", websub_mode_name(r->mode)),
         diag_text("why", reason));
    metrics_add(METRIC_HUB_VERIFICATIONS_FAILED, 1);
    end(r);
}

/* Calling */

/* W-055: any 2xx whose body is exactly the challenge. One byte more than that
 * is read, so that a longer body is seen to be longer. */
static bool
is_confirmation(const struct request *r, const struct call *call)
{
    return call->status / 100 == 2 && !call->is_cut &&
           slice_equal(call->answer,
                       (struct slice){r->challenge, WEBSUB_CHALLENGE_SIZE});
}

static void
on_answer(struct call *call)
{
    struct request *r = list_entry(call, struct request, call);
    int64_t at = next_try(r->hub, call, r->tries);
    char reason[200];

    if (at > 0) {
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

/* Its turn has come: the lease counts from now (W-054). */
static enum call_turn
on_ready(struct call *call)
{
    struct request *r = list_entry(call, struct request, call);

    r->asked_us = clock_now_us();
    return CALL_READY;
}

/* W-053: 256 random bits, for each try others. */
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
        fail(r, "there is no memory for its URL");
        return;
    }
    r->call = (struct call){
        .method = CALL_GET,
        .url = r->url.data,
        .timeout_us = r->hub->config->hub_timeout_us,
        .max_answer = WEBSUB_CHALLENGE_SIZE + 1,
        .is_suspect = r->tries > 1,
        .prepare = on_ready,
        .done = on_answer,
    };
    caller_start(r->hub->caller, &r->call);
}

static void
on_alarm(struct alarm *alarm)
{
    ask(list_entry(alarm, struct request, alarm));
}

/* Forgets the requests of its pair that are older: their rows went in the
 * transaction that has kept this one. */
static void
replace_older(struct request *r)
{
    const struct pairs *pairs = &r->hub->requests->pairs;
    struct pair *pair = pairs_find(pairs, r->topic, slice_of(r->callback)),
                *next;

    for (; pair; pair = next) {
        struct request *other = list_entry(pair, struct request, pair);

        next = pairs_same(pairs, pair);
        if (other->id < r->id)
            forget(other);
    }
}

void
verify_turn(struct hub *hub)
{
    struct requests *all = hub->requests;
    struct list *node;

    /* From the newest on: an older one of its pair may be fresh, too. */
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
        forget(list_entry(node, struct request, turn));
}

/* Taking */

/* In the tables, not in a list of the turn. Takes over what `terms` holds. */
static enum status
enter(struct hub *hub, struct topic *topic, struct slice topic_url,
      struct slice callback, struct slice from, struct terms *terms,
      struct request **made, struct problem *why)
{
    struct requests *all = hub->requests;
    struct request *r = calloc(1, sizeof(*r));
    struct buf host;
    enum status rc;

    if (!r)
        return problem(why, STATUS_MEMORY, "the broker has no memory left");
    r->hub = hub;
    r->topic = topic;
    topic->n_requests++;
    list_append(&all->all, &r->node);
    list_init(&r->turn);
    all->n++;
    r->alarm.ring = on_alarm;
    buf_init(&r->url, URL_MAX);
    buf_init(&host, HOST_MAX);
    websub_authority(&host, callback);
    snprintf(r->from, sizeof(r->from), "%.*s", SLICE_ARG(from));
    r->topic_url = slice_dup(topic_url);
    r->callback = slice_dup(callback);
    r->of_host = tally_enter(&all->hosts, buf_slice(&host));
    r->of_from = tally_enter(&all->froms, slice_of(r->from));
    rc = pairs_enter(&all->pairs, &r->pair, topic, callback, why);
    if (!rc && (host.failed || !r->topic_url || !r->callback || !r->of_host ||
                !r->of_from))
        rc = problem(why, STATUS_MEMORY, "the broker has no memory left");
    buf_fini(&host);
    if (rc) {
        forget(r);
        return rc;
    }
    r->terms = *terms;
    terms->filter = NULL; /* moved */
    terms_fini(terms);
    *made = r;
    return STATUS_OK;
}

enum status
verify_resume(struct hub *hub, struct topic *topic, struct record *record,
              struct problem *why)
{
    struct request *r;
    enum status rc = enter(hub, topic, record->topic_url, record->callback,
                           record->from, &record->terms, &r, why);

    if (rc)
        return rc;
    r->id = record->id;
    r->mode = record->mode;
    r->has_after = record->has_after;
    r->after = record->after;
    r->taken_us = record->taken_us;
    list_append(&hub->requests->due, &r->turn);
    return STATUS_OK;
}

/* W-164. The numbers are those that wait for their verification now. */
static enum status
check_room(struct hub *hub, struct order *order, struct problem *why)
{
    const struct requests *all = hub->requests;
    struct buf host;
    unsigned of_host;

    buf_init(&host, HOST_MAX);
    websub_authority(&host, order->request.callback);
    of_host = tally_count(&all->hosts, buf_slice(&host));
    buf_fini(&host);
    order->http = 429;
    if (of_host >= REQUESTS_PER_HOST)
        return problem(why, STATUS_BUSY,
                       "%u requests for callbacks of this host wait for their "
                       "verification: try again later",
                       of_host);
    if (tally_count(&all->froms, slice_of(order->from)) >= REQUESTS_PER_FROM)
        return problem(why, STATUS_BUSY,
                       "%d requests of yours wait for their verification: try "
                       "again later",
                       REQUESTS_PER_FROM);
    if (all->n >= REQUESTS_MAX)
        return problem(why, STATUS_BUSY,
                       "%d requests wait for their verification: try again "
                       "later",
                       REQUESTS_MAX);
    order->http = 0;
    return STATUS_OK;
}

/* The duration that is granted (W-070, W-071, R-300). */
static int64_t
grant(const struct config *config, uint64_t asked_s)
{
    if (asked_s == 0)
        return config->hub_lease_default_us;
    if (asked_s >= (uint64_t)config->hub_lease_max_us / 1000000)
        return config->hub_lease_max_us;
    if (asked_s <= (uint64_t)config->hub_lease_min_us / 1000000)
        return config->hub_lease_min_us;
    return (int64_t)asked_s * 1000000;
}

static enum status
make_terms(struct hub *hub, const struct order *order,
           const struct topic *topic, struct terms *terms, struct problem *why)
{
    struct slice secret = order->request.secret;
    struct slice filter = filter_text(&order->filter);

    if (filter.size > 0 && topic->kind != TOPIC_CHANGES)
        return problem(why, STATUS_INVALID,
                       "only a set's change notifications can be filtered");
    if (secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_INVALID, "hub.secret: at most %d bytes",
                       WEBSUB_SECRET_MAX);
    terms->lease_us = grant(hub->config, order->request.lease_s);
    terms->secret_size = secret.size;
    if (secret.size > 0)
        memcpy(terms->secret, secret.data, secret.size);
    terms->interval_us = order->interval_us;
    terms->is_simple = order->is_simple;
    if (filter.size > 0) {
        terms->filter = slice_dup(filter);
        if (!terms->filter)
            return problem(why, STATUS_MEMORY, "the broker has no memory left");
    }
    return STATUS_OK;
}

/* Of a simple subscription the topic is that of its set. */
static enum status
find_topic(struct hub *hub, const struct order *order, struct topic **topic,
           struct problem *why)
{
    struct set *set;

    if (!order->is_simple)
        return topic_find(hub, order->request.topic, topic, why);
    set = registry_find(hub->registry, slice_of(order->name), NULL);
    if (!set)
        return problem(why, STATUS_NOT_FOUND, "there is no set \"%s\"",
                       order->name);
    return topic_of_set(hub, TOPIC_CHANGES, set, topic, why);
}

/* Where a new subscription begins: at the head as it is now, so that nothing
 * between request and verification is missed, or where it asks for. */
static enum status
find_place(const struct order *order, const struct topic *topic,
           uint64_t *after, struct problem *why)
{
    if (order->has_after)
        return topic_judge(topic, order->after, after, why);
    if (topic_head(topic, after))
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND, "the topic is no more");
}

static enum status
check_subscriptions(struct hub *hub, const struct order *order,
                    const struct topic *topic, struct problem *why)
{
    uint64_t max = hub->config->hub_subscriptions;

    if (order->request.mode != WEBSUB_SUBSCRIBE ||
        subscriptions_count(hub) < max ||
        subscription_find(hub, topic, order->request.callback))
        return STATUS_OK;
    return problem(why, STATUS_BUSY,
                   "there are %" PRIu64 " subscriptions, the most that there "
                   "may be (--hub-subscriptions)",
                   max);
}

static enum status
make_request(struct hub *hub, const struct order *order, struct topic *topic,
             struct slice topic_url, uint64_t after, struct problem *why)
{
    struct terms terms = {0};
    struct request *r = NULL;
    enum status rc = make_terms(hub, order, topic, &terms, why);

    if (!rc)
        rc = enter(hub, topic, topic_url, order->request.callback,
                   slice_of(order->from), &terms, &r, why);
    terms_fini(&terms);
    if (rc)
        return rc;
    r->id = records_next_id(hub->records);
    r->mode = order->request.mode;
    r->has_after = order->has_after;
    r->after = after;
    r->taken_us = clock_now_us();
    list_append(&hub->requests->fresh, &r->turn);
    records_request(hub->records, r);
    for (struct pair *pair =
             pairs_find(&hub->requests->pairs, topic, order->request.callback);
         pair; pair = pairs_same(&hub->requests->pairs, pair))
        if (list_entry(pair, struct request, pair) != r)
            records_request_gone(hub->records,
                                 list_entry(pair, struct request, pair)->id);
    return STATUS_OK;
}

enum status
verify_take(struct hub *hub, struct order *order, struct problem *why)
{
    struct topic *topic = NULL;
    struct buf url;
    uint64_t after = 0;
    enum status rc = check_room(hub, order, why);

    if (rc)
        return rc;
    buf_init(&url, WEBSUB_URL_MAX);
    rc = find_topic(hub, order, &topic, why);
    if (rc)
        goto out;
    buf_add_slice(&url, order->request.topic);
    if (order->is_simple)
        topic_write_url(&url, topic);
    if (url.failed)
        rc = problem(why, STATUS_MEMORY, "the broker has no memory left");
    if (!rc)
        rc = check_subscriptions(hub, order, topic, why);
    if (!rc)
        rc = find_place(order, topic, &after, why);
    if (!rc)
        rc = make_request(hub, order, topic, buf_slice(&url), after, why);

out:
    buf_fini(&url);
    if (topic && rc)
        topic_release(topic);
    return rc;
}

struct request *
request_next(struct hub *hub, uint64_t after)
{
    struct list *node, *next;

    list_foreach (node, next, &hub->requests->all) {
        struct request *r = list_entry(node, struct request, node);

        if (r->id > after)
            return r;
    }
    return NULL;
}

struct request *
request_by_id(struct hub *hub, uint64_t id)
{
    struct request *r = id > 0 ? request_next(hub, id - 1) : NULL;

    return r && r->id == id ? r : NULL;
}

struct request *
request_behind(struct hub *hub, const struct request *r)
{
    return r->node.next == &hub->requests->all
               ? NULL
               : list_entry(r->node.next, struct request, node);
}

void
requests_free(struct requests *all)
{
    struct list *node;

    if (!all)
        return;
    while ((node = list_first(&all->all)))
        forget(list_entry(node, struct request, node));
    while ((node = list_first(&all->denials))) {
        struct denial *d = list_entry(node, struct denial, node);

        caller_cancel(d->hub->caller, &d->call);
        caller_clear_alarm(d->hub->caller, &d->alarm);
        free_denial(d);
    }
    pairs_fini(&all->pairs);
    free(all);
}

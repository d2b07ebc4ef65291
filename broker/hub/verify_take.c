/*
 * verify_take.c - makes a request from an order: topic, limits, terms,
 * position.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/hub/inside.h"
#include "broker/hub/order.h"
#include "broker/hub/requests.h"
#include "broker/sets/peers.h"

/* Refuses a callback below our own public URL: nothing there confirms, and a
 * set or hub that takes deliveries without having confirmed would make a
 * loop. */
static enum status
check_callback(const struct hub *hub, struct slice callback,
               struct problem *why)
{
    if (!peers_is_ours(callback, registry_public_url(hub->registry)))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "the callback \"%s\" is of this broker itself",
                   problem_quote(callback).text);
}

/* W-164. Counts the requests that wait for their verification now. */
static enum status
check_room(struct hub *hub, struct order *order, struct problem *why)
{
    const struct requests *all = hub->requests;
    struct buf host;
    unsigned of_host;

    buf_init(&host, REQUEST_HOST_MAX);
    websub_host(&host, order->request.callback);
    of_host = host_counts_count(&all->hosts, buf_slice(&host));
    buf_fini(&host);
    order->http = 429;
    if (of_host >= REQUESTS_PER_HOST)
        return problem(why, STATUS_BUSY,
                       "%u requests for callbacks of this host wait for their "
                       "verification: try again later",
                       of_host);
    if (host_counts_count(&all->froms, slice_of(order->from)) >=
        REQUESTS_PER_FROM)
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

/* The lease that the hub grants (W-070, W-071, R-300). */
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
    terms->is_local =
        order->is_local && websub_is_loopback(order->request.callback);
    if (filter.size > 0) {
        terms->filter = slice_dup(filter);
        if (!terms->filter)
            return problem_memory(why);
    }
    return STATUS_OK;
}

/* A simple subscription is to the topic of its set. */
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

/* Finds where a new subscription begins: at the present head, so that it misses
 * nothing between request and verification, or where the request asks for. */
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
        subscription_find(hub, topic, SUBSCRIPTION_CALLBACK,
                          order->request.callback))
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
        rc = request_enter(hub, records_next_id(hub->records), topic, topic_url,
                           order->request.callback, slice_of(order->from),
                           &terms, &r, why);
    terms_fini(&terms);
    if (rc)
        return rc;
    r->mode = order->request.mode;
    r->has_after = order->has_after;
    r->after = after;
    r->taken_us = clock_now_us();
    list_append(&hub->requests->fresh, &r->turn);
    records_request(hub->records, r);
    for (struct pair *pair = callback_table_find(&hub->requests->pairs, topic,
                                                 order->request.callback);
         pair; pair = callback_table_same(&hub->requests->pairs, pair))
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
    enum status rc = check_callback(hub, order->request.callback, why);

    address_widen(order->from, sizeof(order->from));
    if (!rc)
        rc = check_room(hub, order, why);
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
        rc = problem_memory(why);
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

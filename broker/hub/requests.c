#include "broker/hub/requests.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/hub/inside.h"

struct requests *
requests_new(void)
{
    struct requests *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    list_init(&all->all);
    list_init(&all->fresh);
    list_init(&all->due);
    list_init(&all->fresh_denials);
    list_init(&all->denials);
    tallies_init(&all->hosts);
    tallies_init(&all->froms);
    if (callback_table_init(&all->pairs, REQUESTS_MAX)) {
        free(all);
        return NULL;
    }
    return all;
}

int64_t
request_next_try(const struct hub *hub, const struct call *call, unsigned tries)
{
    if (call->failure == CALL_ANSWERED || call->failure == CALL_REFUSED ||
        tries >= REQUEST_TRIES)
        return 0;
    return clock_steady_us() + (hub->config->hub_retry_first_us << (tries - 1));
}

void
request_forget(struct request *r)
{
    struct hub *hub = r->hub;

    if (hub->caller) { /* else nothing was begun */
        caller_cancel(hub->caller, &r->call);
        caller_clear_alarm(hub->caller, &r->alarm);
    }
    list_remove(&r->node);
    list_remove(&r->turn);
    hub->requests->n--;
    id_table_remove(&hub->requests->by_id, r->id);
    id_table_remove(&r->topic->requests_by_id, r->id);
    callback_table_leave(&r->pair);
    host_counts_leave(r->of_host);
    host_counts_leave(r->of_from);
    r->topic->n_requests--;
    topic_release(r->topic);
    terms_fini(&r->terms);
    buf_fini(&r->url);
    free(r->topic_url);
    free(r->callback);
    free(r);
}

enum status
request_enter(struct hub *hub, uint64_t id, struct topic *topic,
              struct slice topic_url, struct slice callback, struct slice from,
              struct terms *terms, struct request **made, struct problem *why)
{
    struct requests *all = hub->requests;
    struct request *r = calloc(1, sizeof(*r));
    struct buf host;
    enum status rc;

    if (!r)
        return problem_memory(why);
    r->hub = hub;
    r->id = id;
    r->topic = topic;
    topic->n_requests++;
    list_append(&all->all, &r->node);
    list_init(&r->turn);
    all->n++;
    buf_init(&r->url, REQUEST_URL_MAX);
    buf_init(&host, REQUEST_HOST_MAX);
    websub_host(&host, callback);
    snprintf(r->from, sizeof(r->from), "%.*s", SLICE_ARG(from));
    r->topic_url = slice_dup(topic_url);
    r->callback = slice_dup(callback);
    r->of_host = host_counts_enter(&all->hosts, buf_slice(&host));
    r->of_from = host_counts_enter(&all->froms, slice_of(r->from));
    rc = callback_table_enter(&all->pairs, &r->pair, topic, callback, why);
    if (!rc && (host.failed || !r->topic_url || !r->callback || !r->of_host ||
                !r->of_from || id_table_add(&all->by_id, id, r) ||
                id_table_add(&topic->requests_by_id, id, r)))
        rc = problem_memory(why);
    buf_fini(&host);
    if (rc) {
        request_forget(r);
        return rc;
    }
    r->terms = *terms;
    terms->filter = NULL; /* moved */
    terms_fini(terms);
    *made = r;
    return STATUS_OK;
}

struct request *
request_next(struct hub *hub, uint64_t after)
{
    return id_table_next(&hub->requests->by_id, after);
}

struct request *
request_by_id(struct hub *hub, uint64_t id)
{
    return id_table_find(&hub->requests->by_id, id);
}

struct request *
request_behind(struct hub *hub, const struct request *r)
{
    return r->node.next == &hub->requests->all
               ? NULL
               : list_entry(r->node.next, struct request, node);
}

bool
request_is_replaced(const struct request *r)
{
    const struct callback_table *pairs = &r->hub->requests->pairs;
    struct pair *pair =
        callback_table_find(pairs, r->topic, slice_of(r->callback));

    for (; pair; pair = callback_table_same(pairs, pair))
        if (list_entry(pair, struct request, pair)->id > r->id)
            return true;
    return false;
}

void
requests_free(struct requests *all)
{
    struct list *node;

    if (!all)
        return;
    while ((node = list_first(&all->all)))
        request_forget(list_entry(node, struct request, node));
    deny_end(all);
    callback_table_fini(&all->pairs);
    id_table_fini(&all->by_id);
    free(all);
}

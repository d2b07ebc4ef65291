/*
 * order_run.c - what each kind of order does.
 *
 * ORDER_END and ORDER_REDELIVER change memory at once; the answer waits for the
 * commit. If the commit fails the answer is 503, and the change happens all the
 * same: the hub writes memory to hub.db as soon as the disk permits (hub.c). A
 * client may repeat both without harm.
 */
#include <inttypes.h>

#include "broker/hub/foreign_source.h"
#include "broker/hub/inside.h"
#include "broker/hub/relay.h"
#include "broker/hub/subscription_report.h"
#include "broker/net/response.h"

bool
hub_topic_is(const struct topic *topic, const char *name, bool is_relay)
{
    const char *of =
        topic->kind == TOPIC_RELAY ? topic->relay->name : topic->set->name;

    return (topic->kind == TOPIC_RELAY) == is_relay &&
           slice_equal(slice_of(of), slice_of(name));
}

void
hub_answer_now(struct order *order, enum status status,
               const struct problem *why)
{
    order->status = status;
    if (why)
        order->why = *why;
    if (status && order->http < 400)
        order->http = response_status_of(status);
    order->done(order);
}

void
hub_answer(struct hub *hub, struct order *order)
{
    list_append(&hub->answers, &order->task.node);
}

static void
subscribe(struct order *order)
{
    struct problem why = {""};
    enum status rc = verification_take(order->hub, order, &why);

    if (rc) {
        hub_answer_now(order, rc, &why);
        return;
    }
    order->http = 202; /* W-031 */
    hub_answer(order->hub, order);
}

/* Checks that the set or relay of the order exists. */
static enum status
check_name(const struct order *order, struct problem *why)
{
    struct slice name = slice_of(order->name);

    if (order->is_relay
            ? relay_find(order->hub, name) != NULL
            : registry_find(order->hub->registry, name, NULL) != NULL)
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND, "there is no %s \"%s\"",
                   order->is_relay ? "relay" : "set", order->name);
}

static void
list(struct order *order)
{
    struct problem why = {""};
    enum status rc = check_name(order, &why);

    if (!rc && order->request.callback.size > 0)
        report_callback(&order->text, order->hub, order->name, order->is_relay,
                        order->request.callback);
    else if (!rc)
        report_list(&order->text, order->hub, order->name, order->is_relay,
                    order->id);
    if (order->text.failed)
        rc = problem_memory(&why);
    order->http = 200;
    hub_answer_now(order, rc, &why);
}

/* Finds the subscription, or the waiting request, that the order names: one of
 * the two, or STATUS_NOT_FOUND. */
static enum status
find(const struct order *order, struct subscription **s,
     struct verification **request, struct problem *why)
{
    enum status rc = check_name(order, why);

    *s = NULL;
    *request = NULL;
    if (rc)
        return rc;
    *s = subscription_by_id(order->hub, order->id);
    if (*s && hub_topic_is((*s)->topic, order->name, order->is_relay))
        return STATUS_OK;
    *s = NULL;
    *request = verification_by_id(order->hub, order->id);
    if (*request &&
        hub_topic_is((*request)->topic, order->name, order->is_relay))
        return STATUS_OK;
    *request = NULL;
    return problem(why, STATUS_NOT_FOUND,
                   "%s \"%s\" has no subscription %" PRIu64,
                   order->is_relay ? "relay" : "set", order->name, order->id);
}

static void
show(struct order *order)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *request;
    enum status rc = find(order, &s, &request, &why);

    if (s)
        report_subscription(&order->text, s);
    else if (request)
        report_verification(&order->text, request);
    BUF_ADD(&order->text, "\n");
    if (order->text.failed)
        rc = problem_memory(&why);
    order->http = 200;
    hub_answer_now(order, rc, &why);
}

/* W-042: ends a subscription at once, and denies its callback. */
static void
end(struct order *order)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *request;
    enum status rc = find(order, &s, &request, &why);

    if (rc) {
        hub_answer_now(order, rc, &why);
        return;
    }
    if (s)
        subscription_end(s, END_DELETED);
    else
        verification_end(request);
    order->http = 204;
    hub_answer(order->hub, order);
}

static void
redeliver(struct order *order)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *request;
    uint64_t after = 0;
    enum status rc = find(order, &s, &request, &why);

    if (!rc && !s)
        rc = problem(&why, STATUS_INVALID,
                     "subscription %" PRIu64 " is not active yet", order->id);
    if (!rc)
        rc = topic_judge(s->topic, order->after, &after, &why);
    if (rc) {
        hub_answer_now(order, rc, &why);
        return;
    }
    subscription_redeliver(s, after);
    report_subscription(&order->text, s);
    BUF_ADD(&order->text, "\n");
    order->http = 200;
    hub_answer(order->hub, order);
}

/* The relay's functions fill in the outcome. */
static void
relay(struct order *order)
{
    void (*const what[ORDER_KINDS])(struct order *) = {
        [ORDER_RELAY_PUT] = relay_put,
        [ORDER_RELAY_SHOW] = relay_show,
        [ORDER_RELAY_LIST] = relay_list,
        [ORDER_RELAY_REMOVE] = relay_remove,
    };

    what[order->kind](order);
    if (order->status)
        hub_answer_now(order, order->status, NULL);
    else
        hub_answer(order->hub, order);
}

void
hub_run(struct order *order)
{
    void (*const what[ORDER_KINDS])(struct order *) = {
        [ORDER_SUBSCRIBE] = subscribe,
        [ORDER_PUBLISH] = foreign_source_publish,
        [ORDER_NOTIFY] = foreign_source_notify,
        [ORDER_LIST] = list,
        [ORDER_SHOW] = show,
        [ORDER_END] = end,
        [ORDER_REDELIVER] = redeliver,
        [ORDER_RELAY_PUT] = relay,
        [ORDER_RELAY_SHOW] = relay,
        [ORDER_RELAY_LIST] = relay,
        [ORDER_RELAY_REMOVE] = relay,
    };

    what[order->kind](order);
}

/*
 * handle_hub.c - POST /hub: who wants to hear (a form), and who has something
 * to tell (a form that pings, or the notification itself: a fat ping).
 *
 * Errors are told as text/plain (W-032).
 */
#include <string.h>

#include "broker/http/asking.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "proto/key.h"
#include "proto/weblink.h"

/* Topic, callback, secret and filters, all of them percent-encoded; or a few
 * hundred topics that are published. */
#define FORM_MAX 16384

/* What an order keeps of a form beside its own bytes. */
#define KEPT_MAX (3 * FORM_MAX)

#define FORM_TYPE "application/x-www-form-urlencoded"

/* Forms */

static void
read_form(struct request *rq, struct asking *a)
{
    struct problem why = {""};
    enum status rc = order_read_form(a->order, buf_slice(&a->body), &why);

    if (rc)
        asking_refuse(rq, a, rc, &why);
    else if (a->order->kind == ORDER_PUBLISH &&
             routes_may_publish(a->http, &why))
        asking_refuse_as(rq, a, 403, &why);
    else
        asking_submit(rq, a);
}

static void
read_simple(struct request *rq, struct asking *a)
{
    struct problem why = {""};
    enum status rc = order_read_simple(a->order, buf_slice(&a->body), &why);

    if (rc)
        asking_refuse(rq, a, rc, &why);
    else
        asking_submit(rq, a);
}

static bool
is_encoded(struct request *rq)
{
    struct slice coding;

    return request_header(rq, "content-encoding", &coding) &&
           !slice_is_word(coding, "identity");
}

static void
refuse_coding(struct request *rq, struct asking *a)
{
    struct problem why = {"this is read as it is, without a Content-Encoding"};

    asking_refuse(rq, a, STATUS_UNSUPPORTED, &why);
}

static void
receive_form(struct request *rq, struct asking *a)
{
    if (is_encoded(rq))
        refuse_coding(rq, a);
    else
        asking_receive(rq, a, FORM_MAX, "a form");
}

void
handle_subscribe_post(struct http *http, struct request *rq,
                      const struct holes *holes)
{
    struct slice type = routes_media_type(rq);
    struct problem why = {""};
    struct asking *a;

    if (!routes_set(http, rq, holes->name, NULL))
        return;
    if (!slice_is_word(type, FORM_TYPE)) {
        problem_set(&why, "a subscription is read as %s, not as \"%s\"",
                    FORM_TYPE, problem_quote(type).text);
        request_answer_problem(rq, 415, &why, NULL, NULL);
        return;
    }
    a = asking_new(http, rq, ORDER_SUBSCRIBE, KEPT_MAX, false);
    if (!a)
        return;
    memcpy(a->order->name, holes->name.data, holes->name.size);
    a->order->is_simple = true;
    a->whole = read_simple;
    receive_form(rq, a);
}

/* Notifications */

static void
take_notification(struct request *rq, struct asking *a)
{
    struct problem why = {"the body is empty: a notification is the "
                          "document itself"};

    if (a->body.size == 0) {
        asking_refuse(rq, a, STATUS_MALFORMED, &why);
        return;
    }
    asking_take_body(a);
    asking_submit(rq, a);
}

/* The links say which topic it is of, and which hub is meant (W-142). */
static enum status
check_links(struct slice links, struct problem *why)
{
    struct slice target;
    size_t n_self = 0, n_hub = 0;

    (void)weblink_find(links, "self", &target, &n_self);
    (void)weblink_find(links, "hub", &target, &n_hub);
    if (n_self == 1 && n_hub > 0)
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED,
                   "a notification comes with one Link header rel=\"self\", "
                   "its topic, and one rel=\"hub\", this hub: here are %zu and "
                   "%zu",
                   n_self, n_hub);
}

static enum status
keep_head(struct request *rq, struct order *order, struct slice type,
          struct slice links, struct problem *why)
{
    struct slice value;
    struct key key;
    enum status rc = STATUS_OK;

    order->content_type = order_keep(order, type);
    order->links = order_keep(order, links);
    if (request_header(rq, "idempotency-key", &value)) {
        rc = key_read(value, &key, why);
        if (!rc)
            order->key = order_keep(order, key_slice(&key));
    }
    if (!rc && order->memory.failed)
        rc = problem(why, STATUS_BUSY, "the broker has no memory left");
    return rc;
}

static void
receive_notification(struct http *http, struct request *rq, struct slice type,
                     struct slice links)
{
    struct problem why = {""};
    struct asking *a;
    enum status rc;

    if (routes_may_publish(http, &why)) {
        request_answer_sentence(rq, 403, &why, NULL);
        return;
    }
    a = asking_new(http, rq, ORDER_NOTIFY,
                   type.size + links.size + sizeof(struct key), true);
    if (!a)
        return;
    rc = check_links(links, &why);
    if (!rc)
        rc = keep_head(rq, a->order, type, links, &why);
    if (rc) {
        asking_refuse(rq, a, rc, &why);
    } else if (is_encoded(rq)) {
        refuse_coding(rq, a);
    } else {
        a->is_counted = true;
        a->whole = take_notification;
        asking_receive(rq, a, registry_config(http->registry)->max_body,
                       "a notification");
    }
}

void
handle_hub_post(struct http *http, struct request *rq,
                const struct holes *holes)
{
    struct slice type = {NULL, 0}, links = {NULL, 0};
    struct problem why = {""};
    struct asking *a;

    (void)holes;
    request_header(rq, "content-type", &type);
    if (slice_is_word(routes_media_type(rq), FORM_TYPE)) {
        a = asking_new(http, rq, ORDER_SUBSCRIBE, KEPT_MAX, true);
        if (!a)
            return;
        a->whole = read_form;
        receive_form(rq, a);
    } else if (type.size > 0 && request_header(rq, "link", &links)) {
        receive_notification(http, rq, type, links);
    } else {
        problem_set(&why,
                    "subscriptions come as %s, notifications with their own "
                    "Content-Type and Link headers rel=\"self\" and "
                    "rel=\"hub\"; the Content-Type is \"%s\"",
                    FORM_TYPE, problem_quote(type).text);
        request_answer_sentence(rq, 415, &why, NULL);
    }
}

/*
 * handle_hub.c - POST /hub: forms of subscribers, and pings of publishers (a
 * form, or the notification itself: a fat ping).
 *
 * The answer to an error is text/plain (W-032).
 */
#include <string.h>

#include "broker/http/answers.h"
#include "broker/http/hub_request.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "proto/idempotency_key.h"
#include "proto/link_header.h"

/* The memory of a command for a form, beside the form's own bytes: three times
 * those. */
#define KEPT(max) (3 * (size_t)(max))

#define FORM_TYPE "application/x-www-form-urlencoded"

/* Forms */

static void
read_form(struct request *rq, struct hub_request *a)
{
    struct problem why = {""};
    enum status rc = command_read_form(a->command, buf_slice(&a->body), &why);

    if (rc)
        hub_request_refuse(rq, a, rc, &why);
    else if (a->command->kind == COMMAND_PUBLISH &&
             answers_may_publish(a->http, &why))
        hub_request_refuse_as(rq, a, 403, &why);
    else
        hub_request_submit(rq, a);
}

static void
read_simple(struct request *rq, struct hub_request *a)
{
    struct problem why = {""};
    enum status rc = command_read_simple(a->command, buf_slice(&a->body), &why);

    if (rc)
        hub_request_refuse(rq, a, rc, &why);
    else
        hub_request_submit(rq, a);
}

void
handle_subscribe_post(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct hub_request *a =
        hub_request_new(http, rq, COMMAND_SUBSCRIBE, KEPT(target->body_max));

    if (!a)
        return;
    memcpy(a->command->name, target->name.data, target->name.size);
    a->command->is_simple = true;
    a->whole = read_simple;
    hub_request_receive(rq, a, target->body_max);
}

/* Notifications */

static void
take_notification(struct request *rq, struct hub_request *a)
{
    struct problem why = {"the body is empty: a notification is the "
                          "document itself"};

    if (a->body.size == 0) {
        hub_request_refuse(rq, a, STATUS_MALFORMED, &why);
        return;
    }
    hub_request_take_body(a);
    hub_request_submit(rq, a);
}

/* Checks that the links name the topic and the hub (W-142). */
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
keep_head(struct request *rq, struct command *command, struct slice type,
          struct slice links, struct problem *why)
{
    struct slice value;
    struct key key;
    enum status rc = STATUS_OK;

    command->content_type = command_keep(command, type);
    command->links = command_keep(command, links);
    if (request_header(rq, "idempotency-key", &value)) {
        rc = key_read(value, &key, why);
        if (!rc)
            command->key = command_keep(command, key_slice(&key));
    }
    if (!rc && command->memory.failed)
        rc = problem_memory(why);
    return rc;
}

static void
receive_notification(struct http *http, struct request *rq, struct slice type,
                     struct slice links, uint64_t max)
{
    struct problem why = {""};
    struct hub_request *a;
    enum status rc;

    if (answers_may_publish(http, &why)) {
        request_answer_problem(rq, 403, &why, NULL, NULL);
        return;
    }
    a = hub_request_new(http, rq, COMMAND_NOTIFY,
                        type.size + links.size + sizeof(struct key));
    if (!a)
        return;
    rc = check_links(links, &why);
    if (!rc)
        rc = keep_head(rq, a->command, type, links, &why);
    if (rc) {
        hub_request_refuse(rq, a, rc, &why);
    } else {
        a->is_counted = true;
        a->whole = take_notification;
        hub_request_receive(rq, a, max);
    }
}

void
handle_hub_form(struct http *http, struct request *rq,
                const struct route_target *target)
{
    struct hub_request *a =
        hub_request_new(http, rq, COMMAND_SUBSCRIBE, KEPT(target->body_max));

    if (!a)
        return;
    a->whole = read_form;
    hub_request_receive(rq, a, target->body_max);
}

void
handle_hub_notification(struct http *http, struct request *rq,
                        const struct route_target *target)
{
    struct slice type = {NULL, 0}, links = {NULL, 0};
    struct problem why = {""};

    request_header(rq, "content-type", &type);
    if (type.size > 0 && request_header(rq, "link", &links)) {
        receive_notification(http, rq, type, links, target->body_max);
        return;
    }
    problem_set(&why,
                "subscriptions come as %s, notifications with their own "
                "Content-Type and Link headers rel=\"self\" and "
                "rel=\"hub\"; the Content-Type is \"%s\"",
                FORM_TYPE, problem_quote(type).text);
    request_answer_problem(rq, 415, &why, NULL, NULL);
}

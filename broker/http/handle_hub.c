/*
 * handle_hub.c - requests to the hub: forms of subscribers, pings and
 * notifications of publishers, and for operators the subscriptions of a set or
 * a relay, and the relays.
 *
 *     POST   /hub                           a form; or the notification itself,
 *                                           a fat ping
 *     POST   /sets/demo/subscribe           a form
 *     GET    /sets/demo/subscriptions?after=17
 *     GET    /sets/demo/subscriptions?callback=https://host/path
 *     GET    /sets/demo/subscriptions/18
 *     DELETE /sets/demo/subscriptions/18
 *     POST   /sets/demo/subscriptions/18/redeliver?after=POSITION
 *     PUT    /relays/feed   {"topic":"https://source.org/feed","hub":"..."}
 *
 * Each is a command, on the way to the delivery thread and back:
 *
 *     new_request --> receive_body --> on_end ... submit_request
 *                                                   |
 *     answered <-- service thread <-- on_done <-- delivery thread
 *
 * The service thread owns a hub_request until submit_request. If the connection
 * breaks before, the hub_request is freed without effect; later, the command
 * still ends, but without an answer.
 *
 * The answer to an error at /hub is text/plain (W-032).
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "broker/http/answers.h"
#include "broker/http/authorization.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/registry.h"
#include "proto/http/idempotency_key.h"
#include "proto/http/link_header.h"
#include "proto/memory.h"
#include "proto/number.h"

/* The memory of a command for a form, beside the form's own bytes: three times
 * those. */
#define KEPT(max) (3 * (size_t)(max))

#define FORM_TYPE "application/x-www-form-urlencoded"

struct hub_request {
    struct task task; /* the command is done */
    struct ticket ticket;
    struct http *http;
    struct command *command;
    struct buf body;        /* of the request, as it arrives */
    struct holding holding; /* memory of the body */
    bool is_counted;        /* the body is counted: it may be long */
    bool is_private;        /* it is about a private set */

    /* The body is complete: reads it, and calls submit_request or
     * refuse_request. NULL: the body is ignored. */
    void (*on_body)(struct request *rq, struct hub_request *h);
};

static void
free_request(struct hub_request *h)
{
    holding_end(&h->holding);
    if (h->body.data && !h->is_counted) /* a form: it may hold a secret */
        OPENSSL_cleanse(h->body.data, h->body.capacity);
    buf_fini(&h->body);
    command_free(h->command);
    free(h);
}

/* Answers a failure, and frees the request. */
static void
refuse_request(struct request *rq, struct hub_request *h, unsigned status,
               const struct problem *why)
{
    request_set_user(rq, NULL);
    holding_end(&h->holding);
    request_answer_problem(rq, status, why);
    free_request(h);
}

/* Makes a command about the set or relay, and the subscription, of the path.
 * `max`: bytes of text that the command will hold, less than MEMORY_SMALL.
 * NULL: the request was answered. */
static struct hub_request *
new_request(struct http *http, struct request *rq,
            const struct route_target *target, enum command_kind kind,
            size_t max)
{
    struct command *command = command_new(kind, max);
    struct hub_request *h = memory_new(1, sizeof(*h));
    struct problem why = {""};

    h->http = http;
    h->command = command;
    command->principal = principal_ref(target->principal);
    h->is_private = target->set && set_is_private(target->set);
    if (target->name.size > 0) {
        memcpy(command->name, target->name.data, target->name.size);
        command->is_relay = !target->set;
    }
    if (target->id.size > 0 && !number_read(target->id, &command->id)) {
        problem_set(&why, "there is no subscription \"%s\"",
                    problem_quote(target->id).text);
        refuse_request(rq, h, 404, &why);
        return NULL;
    }
    return h;
}

/* Answering */

/* Answers with the command's JSON, or with an empty body. */
static void
answer_command(struct request *rq, struct hub_request *h)
{
    struct command *command = h->command;
    struct problem why = PROBLEM_MEMORY;
    struct response r;

    response_init(&r, command->http, NULL);
    if (command->http == 201)
        response_header(&r, "Location", "%s%.*s",
                        registry_public_url(h->http->registry),
                        SLICE_ARG(request_path(rq)));
    if (command->text.size > 0 || command->text.failed) {
        r.content_type = "application/json";
        response_header(&r, "Cache-Control", "%s",
                        answers_cache_control(h->is_private));
        r.body = body_of_buf(&command->text);
        if (!r.body) {
            request_answer_problem(rq, 503, &why);
            return;
        }
    }
    request_answer(rq, &r);
}

/* On the service thread. */
static void
on_answered(struct task *task)
{
    struct hub_request *h = list_entry(task, struct hub_request, task);
    struct request *rq = ticket_request(h->ticket);
    struct command *command = h->command;

    holding_end(&h->holding);
    if (command->http == 0)
        command->http = response_status_of(command->status);
    if (rq && command->status == STATUS_FORBIDDEN &&
        command->principal->is_everyone)
        authorization_refuse(rq, command->principal, 0, SLICE(""));
    else if (rq && (command->status || command->http >= 400))
        request_answer_problem(rq, command->http, &command->why);
    else if (rq)
        answer_command(rq, h);
    free_request(h);
}

/* On the delivery thread, or the log's. */
static void
on_done(struct command *command)
{
    struct hub_request *h = command->user;

    service_post(h->ticket.service, &h->task);
}

/* Hands the command to the hub; from then on it answers by itself. */
static void
submit_request(struct request *rq, struct hub_request *h)
{
    struct problem why = {""};
    enum status rc;

    client_name(request_client(rq), h->command->from);
    h->command->is_local = http_is_local(h->http); /* may_come_in lets no other
                                                    clients in */
    h->task.run = on_answered;
    h->ticket = request_ticket(rq);
    h->command->authority = authority_ref(request_authority(rq));
    h->command->done = on_done;
    h->command->user = h;
    request_set_user(rq, NULL); /* the hub owns it now */
    rc = hub_holder_submit(h->http->hub, h->command, &why);
    if (rc)
        refuse_request(rq, h, response_status_of(rc), &why);
}

/* Receiving */

static void
on_gone(struct request *rq)
{
    if (request_user(rq))
        free_request(request_user(rq));
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct hub_request *h = request_user(rq);
    struct problem why;
    enum status rc =
        answers_take(&h->body, bytes, h->is_counted ? &h->holding : NULL, &why);

    if (rc)
        refuse_request(rq, h, response_status_of(rc), &why);
}

static void
on_end(struct request *rq)
{
    struct hub_request *h = request_user(rq);

    if (h->on_body)
        h->on_body(rq, h);
    else
        submit_request(rq, h);
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    refuse_request(rq, request_user(rq), response_status_of(rc), why);
}

static void
receive_body(struct request *rq, struct hub_request *h, uint64_t max)
{
    static const struct request_handlers handlers = {
        .on_data = on_data,
        .on_end = on_end,
        .on_gone = on_gone,
        .on_broken = on_broken,
    };

    buf_init(&h->body, (size_t)max);
    holding_init(&h->holding, registry_clients(h->http->registry),
                 request_client(rq), CLIENT_POSTS);
    /* Makes all room for a small body at once: growing would leave copies of a
     * secret behind. */
    if (!h->is_counted && request_content_length(rq) > 0)
        (void)buf_room(&h->body, (size_t)request_content_length(rq));
    request_set_user(rq, h);
    request_receive(rq, &handlers, max);
}

/* Moves the body into the command, which it is for. */
static void
submit_body(struct request *rq, struct hub_request *h)
{
    buf_fini(&h->command->body);
    h->command->body = h->body;
    buf_init(&h->body, 0);
    submit_request(rq, h);
}

/* Forms */

static void
submit_form(struct request *rq, struct hub_request *h)
{
    struct problem why = {""};
    struct slice form = h->command->form_text = buf_slice(&h->body);
    enum status rc = h->command->is_simple
                         ? command_read_simple(h->command, form, &why)
                         : command_read_form(h->command, form, &why);

    if (rc)
        refuse_request(rq, h, response_status_of(rc), &why);
    else if (h->command->kind == COMMAND_PUBLISH &&
             answers_may_publish(h->http, &why))
        refuse_request(rq, h, 403, &why);
    else
        submit_request(rq, h);
}

/* Posted to the hub, or to a set. */
void
handle_hub_form(struct http *http, struct request *rq,
                const struct route_target *target)
{
    struct hub_request *h = new_request(http, rq, target, COMMAND_SUBSCRIBE,
                                        KEPT(target->body_max));

    if (!h)
        return;
    h->command->is_simple = target->set != NULL;
    h->on_body = submit_form;
    receive_body(rq, h, target->body_max);
}

/* Notifications */

static void
submit_notification(struct request *rq, struct hub_request *h)
{
    struct problem why = {"the body is empty: a notification is the "
                          "document itself"};

    if (h->body.size == 0)
        refuse_request(rq, h, 400, &why);
    else
        submit_body(rq, h);
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
    return rc;
}

static void
receive_notification(struct http *http, struct request *rq,
                     const struct route_target *target, struct slice type,
                     struct slice links)
{
    struct problem why = {""};
    struct hub_request *h;
    enum status rc;

    if (answers_may_publish(http, &why)) {
        request_answer_problem(rq, 403, &why);
        return;
    }
    h = new_request(http, rq, target, COMMAND_NOTIFY,
                    type.size + links.size + sizeof(struct key));
    if (!h)
        return;
    rc = check_links(links, &why);
    if (!rc)
        rc = keep_head(rq, h->command, type, links, &why);
    if (rc) {
        refuse_request(rq, h, response_status_of(rc), &why);
        return;
    }
    h->is_counted = true;
    h->on_body = submit_notification;
    receive_body(rq, h, target->body_max);
}

void
handle_hub_notification(struct http *http, struct request *rq,
                        const struct route_target *target)
{
    struct slice type = {NULL, 0}, links = {NULL, 0};

    request_header(rq, "content-type", &type);
    if (type.size > 0 && request_header(rq, "link", &links)) {
        receive_notification(http, rq, target, type, links);
        return;
    }
    request_refuse(rq, 415,
                   "subscriptions come as %s, notifications with their own "
                   "Content-Type and Link headers rel=\"self\" and "
                   "rel=\"hub\"; the Content-Type is \"%s\"",
                   FORM_TYPE, problem_quote(type).text);
}

/* Hands over a command that the path alone describes. */
void
handle_command(struct http *http, struct request *rq,
               const struct route_target *target)
{
    struct hub_request *h =
        new_request(http, rq, target, (enum command_kind)target->act, 0);

    if (h)
        receive_body(rq, h, target->body_max);
}

/* Subscriptions */

void
handle_subscriptions_get(struct http *http, struct request *rq,
                         const struct route_target *target)
{
    struct hub_request *h =
        new_request(http, rq, target, COMMAND_LIST, request_query(rq).size);
    struct problem why = {""};
    struct slice after, callback;

    if (!h)
        return;
    if (request_parameter(rq, "after", &after) &&
        !number_read(after, &h->command->id)) {
        problem_set(&why, "after: \"%s\" is not the number of a subscription",
                    problem_quote(after).text);
        refuse_request(rq, h, 400, &why);
        return;
    }
    if (request_parameter(rq, "callback", &callback)) {
        if (websub_check_url(callback, "callback", &why)) {
            refuse_request(rq, h, 400, &why);
            return;
        }
        h->command->request.callback = command_keep(h->command, callback);
    }
    receive_body(rq, h, target->body_max);
}

void
handle_redeliver_post(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct hub_request *h = new_request(http, rq, target, COMMAND_REDELIVER,
                                        request_query(rq).size);
    struct problem why = {""};
    struct slice after;

    if (!h)
        return;
    if (!request_parameter(rq, "after", &after) || after.size == 0) {
        problem_set(&why, "after is missing: ?after=POSITION says where to "
                          "begin again");
        refuse_request(rq, h, 400, &why);
        return;
    }
    h->command->after = command_keep(h->command, after);
    h->command->has_after = true;
    receive_body(rq, h, target->body_max);
}

/* Relays */

void
handle_relay_put(struct http *http, struct request *rq,
                 const struct route_target *target)
{
    struct hub_request *h = new_request(http, rq, target, COMMAND_RELAY_PUT, 0);

    if (!h)
        return;
    h->on_body = submit_body;
    receive_body(rq, h, target->body_max);
}

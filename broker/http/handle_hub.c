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
 *     GET    /sets/demo/subscriptions/18/attempts
 *     POST   /sets/demo/subscriptions/18/attempts?delivery=TIDINGS-DELIVERY
 *     POST   /sets/demo/subscriptions/18/test
 *     GET    /hub/keys
 *     POST   /hub/keys?grace=86400
 *     PUT    /relays/feed   {"topic":"https://source.org/feed","hub":"..."}
 *
 * Each is a command to the delivery thread and back (deferral.h). A command of
 * a client that has gone still ends, but without an answer.
 *
 * The answer to an error at /hub is text/plain (W-032).
 */

#include "broker/http/answers.h"
#include "broker/http/authorization.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/registry.h"
#include "proto/http/idempotency_key.h"
#include "proto/http/link_header.h"
#include "proto/number.h"

/* The memory of a command for a form, beside the form's own bytes: three times
 * those. */
#define KEPT(max) (3 * (size_t)(max))

/* How long a former key of the hub signs and is published, in seconds: time for
 * callbacks that keep the keys to see the new one. */
#define KEY_GRACE_DEFAULT 86400

#define FORM_TYPE "application/x-www-form-urlencoded"

struct hub_request {
    struct deferral deferral;
    struct command *command;
    bool is_private; /* it is about a private set */

    /* The body is complete: reads it, before the command is handed over. NULL:
     * the body is ignored. */
    enum status (*on_body)(struct hub_request *h, struct problem *why);
};

static void
free_command(struct deferral *d)
{
    command_free(list_entry(d, struct hub_request, deferral)->command);
}

/* Answers with the command's JSON, the words about a ping, or nothing. */
static void
answer_request(struct deferral *d, struct request *rq)
{
    struct hub_request *h = list_entry(d, struct hub_request, deferral);
    struct command *command = h->command;
    struct problem why = PROBLEM_MEMORY;
    struct response r;

    if (command->http == 0)
        command->http = response_status_of(command->status);
    if (command->status == STATUS_FORBIDDEN && command->principal &&
        command->principal->is_everyone) {
        authorization_refuse(d->http, rq, command->principal, 0, SLICE(""));
        return;
    }
    if (command->status || command->http >= 400) {
        request_answer_problem(rq, command->http, &command->why);
        return;
    }
    response_init(&r, command->http, NULL, NULL);
    if (command->http == 201)
        response_header(&r, "Location", "%s%.*s",
                        d->http->registry->options.public_url,
                        SLICE_ARG(rq->path));
    if (command->text.size > 0 || command->text.failed) {
        r.content_type = command->kind == COMMAND_PUBLISH
                             ? "text/plain; charset=utf-8"
                         : command->kind == COMMAND_KEYS ||
                                 command->kind == COMMAND_KEYS_ROTATE
                             ? "application/jwk-set+json"
                             : "application/json";
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

/* On the delivery thread, or the log's. */
static void
on_done(struct command *command)
{
    deferral_end(command->user, STATUS_OK, NULL); /* see answer_request */
}

static enum status
submit_request(struct deferral *d, struct problem *why)
{
    struct hub_request *h = list_entry(d, struct hub_request, deferral);
    enum status rc = h->on_body ? h->on_body(h, why) : STATUS_OK;

    if (rc)
        return rc;
    client_name(request_client(d->rq), h->command->from);
    h->command->is_local = http_is_local(d->http); /* may_come_in lets no other
                                                      clients in */
    h->command->authority = authority_ref(d->authority);
    h->command->done = on_done;
    h->command->user = d;
    return hub_owner_submit(d->http->hub, h->command, why);
}

static const struct deferral_kind hub_request = {
    .begin = submit_request, .answer = answer_request, .fini = free_command};

/* Makes a command about the set or relay, and the subscription, of the path.
 * `max`: bytes of text that the command will hold, less than MEMORY_SMALL. */
static enum status
new_request(struct hub_request **made, const struct route_call *call,
            enum command_kind kind, size_t max)
{
    struct hub_request *h = deferral_new(call, &hub_request, sizeof(*h));
    struct command *command = command_new(kind, max);

    *made = h;
    h->command = command;
    command->principal = principal_ref(call->principal);
    h->is_private = call->set && set_is_private(call->set);
    if (call->name.size > 0) {
        memcpy(command->name, call->name.data, call->name.size);
        command->is_relay = !call->set;
    }
    return call->id.size == 0 || number_read(call->id, &command->id)
               ? STATUS_OK
               : problem(call->why, STATUS_NOT_FOUND,
                         "there is no subscription \"%s\"",
                         problem_quote(call->id).text);
}

/* Moves the body into the command, which it is for. */
static enum status
take_body(struct hub_request *h, struct problem *why)
{
    (void)why;
    buf_fini(&h->command->body);
    h->command->body = h->deferral.body;
    buf_init(&h->deferral.body, 0);
    return STATUS_OK;
}

/* Forms */

static enum status
read_form(struct hub_request *h, struct problem *why)
{
    struct slice form = h->command->form_text = buf_slice(&h->deferral.body);
    enum status rc = h->command->is_simple
                         ? command_read_simple(h->command, form, why)
                         : command_read_form(h->command, form, why);

    return rc || h->command->kind != COMMAND_PUBLISH    ? rc
           : answers_may_publish(h->deferral.http, why) ? STATUS_FORBIDDEN
                                                        : STATUS_OK;
}

/* Posted to the hub, or to a set. */
enum status
handle_hub_form(const struct route_call *call)
{
    struct hub_request *h;
    enum status rc =
        new_request(&h, call, COMMAND_SUBSCRIBE, KEPT(call->body_max));

    h->command->is_simple = call->set != NULL;
    h->on_body = read_form;
    return deferral_receive(&h->deferral, call, rc);
}

/* Notifications */

static enum status
read_notification(struct hub_request *h, struct problem *why)
{
    return h->deferral.body.size
               ? take_body(h, why)
               : problem(why, STATUS_MALFORMED,
                         "the body is empty: a notification is the document "
                         "itself");
}

enum status
handle_hub_notification(const struct route_call *call)
{
    struct slice type = {NULL, 0}, links = {NULL, 0}, found;
    size_t n_self = 0, n_hub = 0;
    struct hub_request *h;
    struct key key = {.size = 0};
    enum status rc;

    request_header(call->rq, "content-type", &type);
    if (type.size == 0 || !request_header(call->rq, "link", &links))
        return problem(call->why, STATUS_UNSUPPORTED,
                       "subscriptions and pings come as a form: send "
                       "-H 'Content-Type: %s'; notifications with their own "
                       "Content-Type and Link headers rel=\"self\" and "
                       "rel=\"hub\"; the Content-Type is \"%s\"",
                       FORM_TYPE, problem_quote(type).text);
    if (answers_may_publish(call->http, call->why))
        return STATUS_FORBIDDEN;
    rc = new_request(&h, call, COMMAND_NOTIFY,
                     type.size + links.size + sizeof(struct key));
    /* The links name the topic and the hub (W-142). */
    (void)weblink_find(links, "self", &found, &n_self);
    (void)weblink_find(links, "hub", &found, &n_hub);
    if (!rc && (n_self != 1 || n_hub == 0))
        rc = problem(call->why, STATUS_MALFORMED,
                     "a notification comes with one Link header rel=\"self\", "
                     "its topic, and one rel=\"hub\", this hub: here are %zu "
                     "and %zu",
                     n_self, n_hub);
    if (!rc && request_header(call->rq, "idempotency-key", &found))
        rc = key_read(found, &key, call->why);
    h->command->content_type = command_keep(h->command, type);
    h->command->links = command_keep(h->command, links);
    h->command->key = command_keep(h->command, key_slice(&key));
    h->deferral.is_counted = true;
    h->on_body = read_notification;
    return deferral_receive(&h->deferral, call, rc);
}

/* Subscriptions and relays */

/* Hands over the command of the row, which path and query describe; or the
 * body, of a relay. */
enum status
handle_command(const struct route_call *call)
{
    struct hub_request *h;
    struct slice after = {NULL, 0}, callback = {NULL, 0}, delivery = {NULL, 0};
    enum status rc = new_request(&h, call, (enum command_kind)call->act,
                                 call->rq->query.size);
    bool has_after = request_parameter(call->rq, "after", &after);

    if (!rc && call->act == COMMAND_LIST) {
        if (has_after && !number_read(after, &h->command->id))
            rc = problem(call->why, STATUS_MALFORMED,
                         "after: \"%s\" is not the number of a subscription",
                         problem_quote(after).text);
        else if (request_parameter(call->rq, "callback", &callback) &&
                 websub_check_url(callback, "callback", call->why))
            rc = STATUS_MALFORMED;
        else
            h->command->request.callback = command_keep(h->command, callback);
    }
    if (!rc && call->act == COMMAND_REDELIVER) {
        if (after.size == 0)
            rc = problem(call->why, STATUS_MALFORMED,
                         "after is missing: ?after=POSITION says where to "
                         "begin again");
        else
            h->command->after = command_keep(h->command, after);
        h->command->has_after = true;
    }
    if (!rc && call->act == COMMAND_AGAIN) {
        if (!request_parameter(call->rq, "delivery", &delivery) ||
            !delivery.size)
            rc = problem(call->why, STATUS_MALFORMED,
                         "delivery is missing: ?delivery=ID names one by its "
                         "Tidings-Delivery");
        h->command->key = command_keep(h->command, delivery);
    }
    if (call->act == COMMAND_RELAY_PUT)
        h->on_body = take_body;
    return deferral_receive(&h->deferral, call, rc);
}

/* GET shows the public keys, to everybody; POST makes a new one. */
enum status
handle_hub_keys(const struct route_call *call)
{
    uint64_t grace_s = KEY_GRACE_DEFAULT;
    struct hub_request *h;
    enum status rc;

    if (query_number(call->rq, "grace", 0, GRACE_MAX, &grace_s, NULL,
                     call->why))
        return STATUS_MALFORMED;
    rc = new_request(&h, call, (enum command_kind)call->act, 0);
    h->command->id = grace_s;
    if (call->act == COMMAND_KEYS) { /* another broker may not know it */
        principal_unref(h->command->principal);
        h->command->principal = NULL;
    }
    return deferral_receive(&h->deferral, call, rc);
}

#include "broker/http/hub_request.h"

#include <inttypes.h>
#include <stdlib.h>

#include <openssl/crypto.h>

#include "broker/net/response.h"
#include "broker/sets/registry.h"

static void
asking_free(struct hub_request *a)
{
    if (!a)
        return;
    holding_end(&a->holding);
    if (a->body.data && !a->is_counted) /* a form: it may hold a secret */
        OPENSSL_cleanse(a->body.data, a->body.capacity);
    buf_fini(&a->body);
    command_free(a->command);
    free(a);
}

struct hub_request *
hub_request_new(struct http *http, struct request *rq, enum command_kind kind,
                size_t max)
{
    struct hub_request *a = calloc(1, sizeof(*a));
    struct problem why = PROBLEM_MEMORY;

    if (a) {
        a->http = http;
        a->command = command_new(kind, max);
    }
    if (a && a->command)
        return a;
    free(a);
    request_answer_problem(rq, 503, &why, NULL, NULL);
    return NULL;
}

void
hub_request_refuse_as(struct request *rq, struct hub_request *a,
                      unsigned status, const struct problem *why)
{
    request_set_user(rq, NULL);
    holding_end(&a->holding);
    request_answer_problem(rq, status, why, NULL, NULL);
    asking_free(a);
}

void
hub_request_refuse(struct request *rq, struct hub_request *a, enum status rc,
                   const struct problem *why)
{
    hub_request_refuse_as(rq, a, response_status_of(rc), why);
}

/* Answering */

/* Answers with the command's JSON, or with an empty body. */
static void
answer_command(struct request *rq, struct hub_request *a)
{
    struct command *command = a->command;
    struct problem why = PROBLEM_MEMORY;
    struct response r;

    response_init(&r, command->http, NULL);
    if (command->http == 201)
        response_header(&r, "Location", "%s%.*s",
                        registry_public_url(a->http->registry),
                        SLICE_ARG(request_path(rq)));
    if (command->text.size > 0 || command->text.failed) {
        r.content_type = "application/json";
        response_header(&r, "Cache-Control", "no-cache");
        r.body = body_of_buf(&command->text);
        if (!r.body) {
            request_answer_problem(rq, 503, &why, NULL, NULL);
            return;
        }
    }
    request_answer(rq, &r);
}

/* On the service thread. */
static void
on_answered(struct task *task)
{
    struct hub_request *a = list_entry(task, struct hub_request, task);
    struct request *rq = ticket_request(a->ticket);
    struct command *command = a->command;

    holding_end(&a->holding);
    if (command->http == 0)
        command->http = response_status_of(command->status);
    if (rq && (command->status || command->http >= 400))
        request_answer_problem(rq, command->http, &command->why, NULL, NULL);
    else if (rq)
        answer_command(rq, a);
    asking_free(a);
}

/* On the delivery thread, or the log's. */
static void
on_done(struct command *command)
{
    struct hub_request *a = command->user;

    service_post(a->ticket.service, &a->task);
}

void
hub_request_submit(struct request *rq, struct hub_request *a)
{
    struct problem why = {"the broker is ending"};
    enum status rc;

    client_name(request_client(rq), a->command->from);
    a->command->is_local = a->http->is_open; /* may_come_in lets no other
                                              clients in */
    a->task.run = on_answered;
    a->ticket = request_ticket(rq);
    a->command->done = on_done;
    a->command->user = a;
    request_set_user(rq, NULL); /* the hub owns it now */
    rc = hub_submit(a->http->hub, a->command);
    if (rc)
        hub_request_refuse(rq, a, rc, &why);
}

/* Receiving */

static void
on_gone(struct request *rq)
{
    asking_free(request_user(rq));
}

/* Counts the memory of the body, which grows in large steps. */
static enum status
count_body(struct hub_request *a, struct problem *why)
{
    if (!a->is_counted || a->body.capacity <= a->holding.n)
        return STATUS_OK;
    return holding_add(&a->holding, a->body.capacity - a->holding.n, why);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct hub_request *a = request_user(rq);
    struct problem why = PROBLEM_MEMORY;
    enum status rc = STATUS_MEMORY;

    buf_add_slice(&a->body, bytes);
    if (!a->body.failed)
        rc = count_body(a, &why);
    if (rc)
        hub_request_refuse(rq, a, rc, &why);
}

static void
on_end(struct request *rq)
{
    struct hub_request *a = request_user(rq);

    if (a->whole)
        a->whole(rq, a);
    else
        hub_request_submit(rq, a);
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    hub_request_refuse(rq, request_user(rq), rc, why);
}

static const struct request_handlers received = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_gone,
    .on_broken = on_broken,
};

void
hub_request_take_body(struct hub_request *a)
{
    buf_fini(&a->command->body);
    a->command->body = a->body;
    buf_init(&a->body, 0);
}

void
hub_request_receive(struct request *rq, struct hub_request *a, uint64_t max)
{
    buf_init(&a->body, (size_t)max);
    holding_init(&a->holding, registry_clients(a->http->registry),
                 request_client(rq), CLIENT_POSTS);
    /* Makes all room for a small body at once: growing would leave copies of a
     * secret behind. */
    if (!a->is_counted && request_content_length(rq) > 0)
        (void)buf_room(&a->body, (size_t)request_content_length(rq));
    request_set_user(rq, a);
    request_receive(rq, &received, max);
}

/*
 * handle_tokens.c - tokens, for administrators, and what a principal may know
 * of itself.
 *
 *     GET    /tokens                        all, without their secrets
 *     POST   /tokens                        makes one (token_command.h)
 *     GET    /tokens/self
 *     GET    /tokens/press
 *     DELETE /tokens/press
 *     POST   /tokens/press/rotate?grace=3600
 *     POST   /tickets                       a pass for one request (tickets.h)
 *     POST   /session                       signs a browser in (session.h)
 *     DELETE /session
 *
 * Changes wait for the disk, so a worker makes them:
 *
 *     new_request --> receive --> on_end --> [worker] --> on_done --> answered
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "broker/access/request_tickets.h"
#include "broker/access/tickets.h"
#include "broker/access/token_command.h"
#include "broker/http/answers.h"
#include "broker/http/authorization.h"
#include "broker/http/routes.h"
#include "broker/http/session.h"
#include "broker/net/response.h"
#include "proto/memory.h"
#include "proto/number.h"

/* The longest grace, in seconds: a year. */
#define GRACE_MAX 31536000

struct token_request {
    struct job job;
    struct ticket ticket;
    struct tokens *tokens;
    struct authority *authority; /* a reference */
    struct token_command command;
    char name[TOKEN_NAME_MAX + 1];
    struct buf body; /* of the request, then the answer: it may have a secret */
    struct buf text;
    enum status status;
    struct problem why;
};

static void
wipe(struct buf *text)
{
    if (text->data)
        OPENSSL_cleanse(text->data, text->capacity);
    buf_fini(text);
}

static void
free_request(struct token_request *t)
{
    wipe(&t->body);
    wipe(&t->text);
    authority_unref(t->authority);
    free(t);
}

static void
answer(struct request *rq, struct token_request *t)
{
    bool is_new = t->command.act == TOKEN_ADD;
    struct response r;

    if (t->status) {
        request_answer_problem(rq, response_status_of(t->status), &t->why);
        return;
    }
    response_init(&r,
                  is_new                           ? 201
                  : t->command.act == TOKEN_REVOKE ? 204
                                                   : 200,
                  t->text.size ? "application/json" : NULL);
    response_header(&r, "Cache-Control", "no-store");
    response_text(&r, &t->text);
    request_answer(rq, &r);
}

/* On the service thread. */
static void
on_done(struct job *job)
{
    struct token_request *t = list_entry(job, struct token_request, job);
    struct request *rq = ticket_request(t->ticket);

    if (rq)
        answer(rq, t);
    free_request(t);
}

/* On a worker. */
static void
on_work(struct job *job)
{
    struct token_request *t = list_entry(job, struct token_request, job);

    t->command.json = buf_slice(&t->body);
    t->status = token_command_run(t->tokens, &t->command, &t->text, &t->why);
    if (!t->status && t->text.failed)
        t->status = problem_memory(&t->why);
}

static void
start_work(struct request *rq, struct token_request *t)
{
    request_set_user(rq, NULL); /* the job owns it now */
    t->ticket = request_ticket(rq);
    /* A token that ends itself gets its answer all the same. */
    if (request_method(rq) == METHOD_POST ||
        request_method(rq) == METHOD_DELETE)
        t->authority = request_take_authority(rq);
    t->command.by = t->authority;
    t->job.work = on_work;
    t->job.done = on_done;
    service_work(request_service(rq), &t->job);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct token_request *t = request_user(rq);

    buf_add_slice(&t->body, bytes);
}

static void
on_end(struct request *rq)
{
    start_work(rq, request_user(rq));
}

static void
on_gone(struct request *rq)
{
    if (request_user(rq))
        free_request(request_user(rq));
}

static const struct request_handlers handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_gone,
};

/* NULL: it was answered. */
static struct token_request *
new_request(struct http *http, struct request *rq,
            const struct route_target *target, enum token_act act)
{
    struct token_request *t;

    if (target->name.size > TOKEN_NAME_MAX) {
        request_refuse(rq, 404, "there is no token \"%s\"",
                       problem_quote(target->name).text);
        return NULL;
    }
    t = memory_new(1, sizeof(*t));
    t->tokens = http->tokens;
    t->command.act = act;
    if (target->name.size) /* else it has no data */
        memcpy(t->name, target->name.data, target->name.size);
    t->command.name = slice_of(t->name);
    buf_init(&t->body, TOKEN_JSON_MAX);
    buf_init(&t->text, TOKENS_JSON_MAX);
    return t;
}

static void
receive(struct http *http, struct request *rq,
        const struct route_target *target, enum token_act act, int64_t grace_us)
{
    struct token_request *t = new_request(http, rq, target, act);

    if (!t)
        return;
    t->command.grace_us = grace_us;
    request_set_user(rq, t);
    if (request_has_body(rq))
        request_receive(rq, &handlers, target->body_max);
    else
        start_work(rq, t);
}

void
handle_token(struct http *http, struct request *rq,
             const struct route_target *target)
{
    receive(http, rq, target, (enum token_act)target->act, 0);
}

void
handle_token_rotate(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    struct slice grace;
    uint64_t seconds = 0;

    if (request_parameter(rq, "grace", &grace) &&
        (!number_read(grace, &seconds) || seconds > GRACE_MAX)) {
        request_refuse(rq, 400,
                       "grace: \"%s\" is not a number of seconds up to %d",
                       problem_quote(grace).text, GRACE_MAX);
        return;
    }
    receive(http, rq, target, TOKEN_ROTATE, (int64_t)seconds * 1000000);
}

void
handle_token_self(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    struct buf text;

    (void)http;
    buf_init(&text, TOKEN_JSON_MAX);
    token_command_self(&text, target->principal);
    answers_buf(rq, 200, "application/json", "no-store", &text);
}

/* {"ticket":"...","seconds":60} */
void
handle_tickets_post(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    char text[REQUEST_TICKET_SIZE], json[REQUEST_TICKET_SIZE + 64];
    struct problem why = {""};
    struct response r;
    enum status rc = request_tickets_add(http->tickets, target->principal,
                                         request_client(rq), text, &why);

    if (rc) {
        answers_failure(rq, rc, &why);
        return;
    }
    snprintf(json, sizeof(json), "{\"ticket\":\"%s\",\"seconds\":%d}\n", text,
             TICKET_US / 1000000);
    response_init(&r, 201, "application/json");
    response_header(&r, "Cache-Control", "no-store");
    r.text = slice_of(json);
    request_answer(rq, &r);
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(json, sizeof(json));
}

/* True if a session may begin. An open broker needs none, and gives none. */
static bool
may_sign_in(struct http *http, struct request *rq)
{
    struct problem why = {"only the broker's own pages sign in here"};
    struct slice token;

    if (session_is_foreign(http, rq))
        request_answer_problem(rq, 403, &why);
    else if (!tokens_are_open(http->tokens) &&
             !request_header(rq, "authorization", &token))
        authorization_require(rq);
    else
        return true;
    return false;
}

void
handle_session_post(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    bool is_open = tokens_are_open(http->tokens);
    char cookie[TICKET_TEXT_SIZE];
    struct problem why = {""};
    struct response r;
    struct buf text;
    enum status rc;

    if (!may_sign_in(http, rq))
        return;
    rc = is_open ? STATUS_OK
                 : tickets_add(http->sessions, target->principal,
                               request_client(rq), cookie, &why);
    if (rc) {
        answers_failure(rq, rc, &why);
        return;
    }
    session_end(http, rq); /* the session of the same browser */
    buf_init(&text, TOKEN_JSON_MAX);
    token_command_self(&text, target->principal);
    response_init(&r, 201, "application/json");
    response_header(&r, "Cache-Control", "no-store");
    if (!is_open) {
        session_add_cookie(http, rq, &r, cookie);
        OPENSSL_cleanse(cookie, sizeof(cookie));
    }
    response_text(&r, &text);
    request_answer(rq, &r);
    OPENSSL_cleanse(r.headers, sizeof(r.headers));
    buf_fini(&text);
}

void
handle_session_delete(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct response r;

    (void)target;
    session_end(http, rq);
    response_init(&r, 204, NULL);
    response_header(&r, "Cache-Control", "no-store");
    if (!session_is_foreign(http, rq))
        session_add_cookie(http, rq, &r, NULL);
    request_answer(rq, &r);
}

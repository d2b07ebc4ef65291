/*
 * handle_tokens.c - tokens, for administrators, and what a principal may know
 * of itself.
 *
 *     GET    /tokens                        all, without their secrets
 *     POST   /tokens                        makes one (token_json.h)
 *     GET    /tokens/self
 *     GET    /tokens/press
 *     DELETE /tokens/press
 *     POST   /tokens/press/rotate?grace=3600
 *     POST   /tickets                       a pass for one request (tickets.h)
 *     POST   /session?renew=yes             signs a browser in (session.h)
 *     DELETE /session
 *
 * Changes wait for the disk, so a worker makes them (deferral.h).
 */

#include <openssl/crypto.h>

#include "broker/access/request_tickets.h"
#include "broker/access/tickets.h"
#include "broker/access/token_json.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/http/session.h"
#include "broker/net/response.h"

struct token_request {
    struct deferral deferral;
    struct token_command command;
    char name[TOKEN_NAME_MAX + 1];
};

static void
answer_request(struct deferral *d, struct request *rq)
{
    struct token_request *t = list_entry(d, struct token_request, deferral);
    struct response r;

    response_init(&r,
                  t->command.act == TOKEN_ADD      ? 201
                  : t->command.act == TOKEN_REVOKE ? 204
                                                   : 200,
                  d->text.size ? "application/json" : NULL, "no-store");
    response_text(&r, &d->text);
    request_answer(rq, &r);
}

static enum status
run_command(struct deferral *d, struct problem *why)
{
    struct token_request *t = list_entry(d, struct token_request, deferral);
    enum status rc;

    t->command.json = buf_slice(&d->body);
    t->command.by = d->authority;
    rc = token_json_run(d->http->tokens, &t->command, &d->text, why);
    return !rc && d->text.failed ? problem_memory(why) : rc;
}

static const struct deferral_kind token_request = {.work = run_command,
                                                   .answer = answer_request};

enum status
handle_token(const struct route_call *call)
{
    enum token_act act = (enum token_act)call->act;
    struct token_request *t;
    uint64_t grace_s = 0;

    if (act == TOKEN_ROTATE && query_number(call->rq, "grace", 0, GRACE_MAX,
                                            &grace_s, NULL, call->why))
        return STATUS_MALFORMED;
    if (call->name.size > TOKEN_NAME_MAX)
        return problem(call->why, STATUS_NOT_FOUND, "there is no token \"%s\"",
                       problem_quote(call->name).text);
    t = deferral_new(call, &token_request, sizeof(*t));
    /* A token that ends itself gets its answer all the same. */
    t->deferral.decides = act != TOKEN_LIST && act != TOKEN_SHOW;
    t->command.act = act;
    t->command.grace_us = (int64_t)grace_s * 1000000;
    if (call->name.size) /* else it has no data */
        memcpy(t->name, call->name.data, call->name.size);
    t->command.name = slice_of(t->name);
    buf_init(&t->deferral.text, TOKENS_JSON_MAX);
    return deferral_receive(&t->deferral, call, STATUS_OK);
}

enum status
handle_token_self(const struct route_call *call)
{
    struct buf text = {.max = TOKEN_JSON_MAX};

    token_json_self(&text, call->principal);
    answers_buf(call->rq, 200, "application/json", "no-store", &text);
    return STATUS_OK;
}

/* {"ticket":"...","seconds":60} */
enum status
handle_tickets_post(const struct route_call *call)
{
    char text[REQUEST_TICKET_SIZE], json[REQUEST_TICKET_SIZE + 64];
    struct response r;
    enum status rc =
        request_tickets_add(call->http->tickets, call->principal,
                            request_client(call->rq), text, call->why);

    if (rc)
        return rc;
    snprintf(json, sizeof(json), "{\"ticket\":\"%s\",\"seconds\":%d}\n", text,
             TICKET_US / 1000000);
    response_init(&r, 201, "application/json", "no-store");
    r.text = slice_of(json);
    request_answer(call->rq, &r);
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(json, sizeof(json));
    return STATUS_OK;
}

/* An open broker needs no session, and gives none. */
enum status
handle_session_post(const struct route_call *call)
{
    struct request *rq = call->rq;
    struct http *http = call->http;
    bool is_open = tokens_are_open(http->tokens), renews;
    char cookie[TICKET_TEXT_SIZE];
    enum status rc = query_yes(rq, "renew", &renews, call->why);
    struct response r;
    struct slice token;
    struct buf text = {.max = TOKEN_JSON_MAX};

    if (rc)
        return rc;
    if (session_is_foreign(http, rq))
        return problem(call->why, STATUS_FORBIDDEN,
                       "only the broker's own pages sign in here");
    if (!is_open && !request_header(rq, "authorization", &token))
        return problem(call->why, STATUS_DENIED, AUTHORITY_MISSING);
    if (!is_open && renews)
        rc = session_renew(http, rq, call->principal, call->why);
    else if (!is_open)
        rc = tickets_add(http->sessions, call->principal, request_client(rq),
                         cookie, call->why);
    if (rc)
        return rc;
    if (!renews)
        session_end(http, rq); /* the session of the same browser */
    token_json_self(&text, call->principal);
    response_init(&r, renews ? 200 : 201, "application/json", "no-store");
    if (!is_open && !renews) {
        session_add_cookie(http, rq, &r, cookie);
        OPENSSL_cleanse(cookie, sizeof(cookie));
    }
    response_text(&r, &text);
    request_answer(rq, &r);
    OPENSSL_cleanse(r.headers, sizeof(r.headers));
    buf_fini(&text);
    return STATUS_OK;
}

enum status
handle_session_delete(const struct route_call *call)
{
    struct response r;

    session_end(call->http, call->rq);
    response_init(&r, 204, NULL, "no-store");
    if (!session_is_foreign(call->http, call->rq))
        session_add_cookie(call->http, call->rq, &r, NULL);
    request_answer(call->rq, &r);
    return STATUS_OK;
}

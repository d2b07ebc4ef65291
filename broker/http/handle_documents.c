/*
 * handle_documents.c - GET and HEAD of every document.
 */
#include <stdlib.h>

#include "broker/documents/documents.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"

/* A document that is opened at the worker pool. */
struct opening {
    struct job job;
    struct ticket ticket;
    document_open_fn *open;
    struct document_wish wish;
    struct body *body;
    enum status status;
    struct problem why;
};

static void
answer(struct request *rq, enum status rc, struct body *body,
       const struct problem *why)
{
    struct response r;

    if (rc) {
        routes_answer_failure(rq, rc, why, NULL, NULL);
        return;
    }
    response_init(&r, 200, "application/xml");
    r.body = body;
    request_answer(rq, &r);
}

static void
open_work(struct job *job)
{
    struct opening *o = list_entry(job, struct opening, job);

    o->status = o->open(&o->wish, &o->body, &o->why);
}

static void
open_done(struct job *job)
{
    struct opening *o = list_entry(job, struct opening, job);
    struct request *rq = ticket_request(o->ticket);

    if (rq)
        answer(rq, o->status, o->body, &o->why);
    else if (o->body)
        o->body->free(o->body);
    free(o);
}

/* The ticket tells the job that the request is gone. */
static void
on_gone(struct request *rq)
{
    (void)rq;
}

static const struct request_handlers handlers = {.on_gone = on_gone};

static void
open_later(struct request *rq, document_open_fn *open,
           const struct document_wish *wish)
{
    struct opening *o = calloc(1, sizeof(*o));

    if (!o) {
        routes_answer_failure(rq, STATUS_BUSY, NULL, NULL, NULL);
        return;
    }
    o->open = open;
    o->wish = *wish;
    o->wish.patience = LOG_DISK;
    o->ticket = request_ticket(rq);
    o->job.work = open_work;
    o->job.done = open_done;
    request_defer(rq, &handlers);
    service_work(request_service(rq), &o->job);
}

void
handle_documents_get(struct http *http, struct request *rq, struct slice name)
{
    struct document_wish wish = {.registry = http->registry,
                                 .patience = LOG_MEMORY};
    struct document_found found;
    struct problem why = {""};
    struct body *body = NULL;
    enum status rc = documents_find(request_path(rq), &found);

    if (!rc && found.has_set) {
        wish.set = routes_set(http, rq, name, &wish.head);
        if (!wish.set)
            return;
    }
    wish.number = found.number;
    if (!rc)
        rc = found.open(&wish, &body, &why);
    if (rc == STATUS_AGAIN)
        open_later(rq, found.open, &wish);
    else
        answer(rq, rc, body, &why);
}

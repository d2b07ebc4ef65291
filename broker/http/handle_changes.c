/*
 * handle_changes.c - POST changes.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/posts/ingest.h"
#include "proto/memory.h"

/* The ingest reads the body as it arrives; the answer comes back from the log
 * thread. If the connection breaks after the whole body has arrived, the
 * changes are still committed, but without an answer.
 *
 * If the ingest is behind the arrived bytes, a task continues it, step by step,
 * with other connections in between. The task runs on the same thread, so it
 * either runs before the end of the request, or finds the posting without an
 * ingest.
 * */
struct posting {
    struct task task; /* posted to this thread, by the log thread or this one */
    struct ticket ticket;
    struct ingest *ingest;
    struct holding holding; /* memory of the ingest */
    struct request *rq;     /* while is_behind */
    bool is_behind;         /* the task is posted, to catch up */
    bool is_whole;          /* the body has arrived */
};

static void
posting_free(struct posting *p)
{
    if (!p)
        return;
    ingest_free(p->ingest);
    p->ingest = NULL;
    holding_end(&p->holding);
    if (!p->is_behind)
        free(p);
}

/* On the service thread: the log has answered. */
static void
on_answered(struct task *task)
{
    struct posting *p = list_entry(task, struct posting, task);
    struct request *rq = ticket_request(p->ticket);

    if (rq)
        request_set_user(rq, NULL);
    ingest_give_back(p->ingest);
    answers_post(rq, p->ingest);
    posting_free(p);
}

/* On the log thread: posts the answer to the connection's thread. */
static void
on_committed(struct ingest *ingest, void *user)
{
    struct posting *p = user;

    (void)ingest;
    service_post(p->ticket.service, &p->task);
}

static void
refuse_post(struct request *rq, struct posting *p, enum status rc,
            const struct problem *why)
{
    answers_count_rejected(rc);
    request_set_user(rq, NULL);
    posting_free(p);
    answers_failure(rq, rc, why);
}

/* Hands the ingest to the log, after the end of the body. */
static void
finish_post(struct request *rq, struct posting *p)
{
    struct problem why = {""};
    enum status rc;

    p->task.run = on_answered;
    p->ticket = request_ticket(rq);
    request_set_user(rq,
                     NULL); /* the log owns it now, and asks at the commit */
    ingest_set_authority(p->ingest, request_take_authority(rq));
    rc = ingest_end(p->ingest, on_committed, p, &why);
    if (rc)
        refuse_post(rq, p, rc, &why);
}

static void
continue_post(struct request *rq, struct posting *p)
{
    if (p->is_behind)
        return;
    if (ingest_is_behind(p->ingest)) {
        p->is_behind = true;
        p->rq = rq;
        service_post(request_service(rq), &p->task);
    } else if (p->is_whole) {
        finish_post(rq, p);
    }
}

static void
on_behind(struct task *task)
{
    struct posting *p = list_entry(task, struct posting, task);
    struct problem why = {""};
    enum status rc;

    p->is_behind = false;
    if (!p->ingest) { /* refused meanwhile, or the connection has ended */
        posting_free(p);
        return;
    }
    rc = ingest_catch_up(p->ingest, &why);
    if (rc)
        refuse_post(p->rq, p, rc, &why);
    else
        continue_post(p->rq, p);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct posting *p = request_user(rq);
    struct problem why = {""};
    enum status rc = ingest_feed(p->ingest, bytes, &why);

    if (rc)
        refuse_post(rq, p, rc, &why);
    else
        continue_post(rq, p);
}

static void
on_end(struct request *rq)
{
    struct posting *p = request_user(rq);

    p->is_whole = true;
    continue_post(rq, p);
}

static void
on_post_gone(struct request *rq)
{
    if (request_user(rq)) /* else the log owns it */
        metrics_add(METRIC_POSTS_INCOMPLETE, 1);
    posting_free(request_user(rq));
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    refuse_post(rq, request_user(rq), rc, why);
}

static const struct request_handlers post_handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_post_gone,
    .on_broken = on_broken,
};

static enum status
set_key(struct request *rq, const struct principal *principal,
        struct ingest *ingest, struct problem *why)
{
    struct key key;
    enum status rc = answers_read_key(rq, principal, &key, why);

    return rc || key.size == 0 ? rc : ingest_set_key(ingest, &key, why);
}

void
handle_changes_post(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    struct slice type = {NULL, 0}, encoding;
    struct problem why = {""};
    struct posting *p = memory_new(1, sizeof(*p));
    enum status rc = answers_check_publisher(rq, &why);

    request_header(rq, "content-type", &type);
    if (!rc)
        rc = ingest_begin(&p->ingest, http->posts, target->name, type,
                          request_content_length(rq), &why);
    if (!rc) {
        holding_init(&p->holding, registry_clients(http->registry),
                     request_client(rq), CLIENT_POSTS);
        rc = ingest_count_in(p->ingest, &p->holding, &why);
    }
    if (!rc && request_header(rq, "content-encoding", &encoding))
        rc = ingest_decode(p->ingest, encoding, &why);
    if (!rc)
        rc = set_key(rq, target->principal, p->ingest, &why);
    if (rc) {
        answers_count_rejected(rc);
        posting_free(p);
        answers_failure(rq, rc, &why);
        return;
    }
    p->task.run = on_behind;
    request_set_user(rq, p);
    request_receive(rq, &post_handlers, target->body_max);
}

/*
 * handle_changes.c - POST changes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/ingest.h"
#include "proto/json.h"

/* The body is read as it arrives; the answer comes back from the log
 * thread. The ingest outlives a connection that breaks meanwhile: what was
 * whole is committed all the same, only nobody is told.
 *
 * Where the ingest is behind what has arrived, a task takes it on, step by
 * step, with other connections in between. It is the thread's own, so it either
 * comes before the end of the request, or finds the posting without an ingest.
 */
struct posting {
    struct task task; /* from the log thread, or this one, to this one */
    struct ticket ticket;
    struct ingest *ingest;
    struct request *rq; /* while is_behind */
    bool is_behind;     /* the task is out to catch up */
    bool is_whole;      /* the body has arrived */
};

static void
posting_free(struct posting *p)
{
    if (!p)
        return;
    ingest_free(p->ingest);
    p->ingest = NULL;
    if (!p->is_behind)
        free(p);
}

/* {"set":"demo","first":1,"last":3,"position":"...-3","datetime":"..."} */
static void
answer_posted(struct request *rq, const struct set *set,
              const struct post *post)
{
    char position[POSITION_MAX], datetime[DATETIME_SIZE];
    struct response r;
    struct buf text;

    position_write(position, post->epoch, post->last);
    datetime_write(datetime, post->last_us);
    buf_init(&text, 4096);
    BUF_ADD(&text, "{\"set\":");
    json_string(&text, slice_of(set->name));
    buf_add_format(&text,
                   ",\"first\":%" PRIu64 ",\"last\":%" PRIu64
                   ",\"position\":\"%s\",\"datetime\":\"%.*s\"}\n",
                   post->first, post->last, position, DATETIME_SIZE, datetime);
    response_init(&r, 200, "application/json");
    r.text = buf_slice(&text);
    request_answer(rq, &r);
    buf_fini(&text);
}

static void
count_rejected(enum status rc)
{
    metrics_add_label(METRIC_POSTS_REJECTED,
                      metrics_code(response_status_of(rc)), 1);
}

/* Service thread: the log has answered. */
static void
on_answered(struct task *task)
{
    struct posting *p = list_entry(task, struct posting, task);
    const struct post *post = ingest_post(p->ingest);
    struct request *rq = ticket_request(p->ticket);

    if (post->status)
        count_rejected(post->status);
    if (rq) {
        request_set_user(rq, NULL);
        if (post->status)
            routes_answer_failure(rq, post->status, &post->why, NULL, NULL);
        else
            answer_posted(rq, ingest_set(p->ingest), post);
    }
    posting_free(p);
}

/* Log thread: back to the connection's thread. */
static void
on_committed(struct ingest *ingest, void *user)
{
    struct posting *p = user;

    (void)ingest;
    service_post(p->ticket.service, &p->task);
}

static void
refuse(struct request *rq, struct posting *p, enum status rc,
       const struct problem *why)
{
    count_rejected(rc);
    request_set_user(rq, NULL);
    posting_free(p);
    routes_answer_failure(rq, rc, why, NULL, NULL);
}

/* The body was read to its end: the log's turn. */
static void
finish(struct request *rq, struct posting *p)
{
    struct problem why = {""};
    enum status rc;

    p->task.run = on_answered;
    p->ticket = request_ticket(rq);
    request_set_user(rq, NULL); /* the log's now: nobody here frees it */
    rc = ingest_end(p->ingest, on_committed, p, &why);
    if (rc)
        refuse(rq, p, rc, &why);
}

static void
go_on(struct request *rq, struct posting *p)
{
    if (p->is_behind)
        return;
    if (ingest_is_behind(p->ingest)) {
        p->is_behind = true;
        p->rq = rq;
        service_post(request_service(rq), &p->task);
    } else if (p->is_whole) {
        finish(rq, p);
    }
}

static void
on_behind(struct task *task)
{
    struct posting *p = list_entry(task, struct posting, task);
    struct problem why = {""};
    enum status rc;

    p->is_behind = false;
    if (!p->ingest) { /* refused meanwhile, or the connection is gone */
        posting_free(p);
        return;
    }
    rc = ingest_catch_up(p->ingest, &why);
    if (rc)
        refuse(p->rq, p, rc, &why);
    else
        go_on(p->rq, p);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct posting *p = request_user(rq);
    struct problem why = {""};
    enum status rc = ingest_feed(p->ingest, bytes, &why);

    if (rc)
        refuse(rq, p, rc, &why);
    else
        go_on(rq, p);
}

static void
on_end(struct request *rq)
{
    struct posting *p = request_user(rq);

    p->is_whole = true;
    go_on(rq, p);
}

static void
on_post_gone(struct request *rq)
{
    if (request_user(rq)) /* else the log has it */
        metrics_add(METRIC_POSTS_INCOMPLETE, 1);
    posting_free(request_user(rq));
}

static const struct request_handlers post_handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_post_gone,
};

/* Gives the post its Idempotency-Key, if it came with one. */
static enum status
set_key(struct request *rq, struct ingest *ingest, struct problem *why)
{
    struct slice value;
    struct key key;
    enum status rc;

    if (!request_header(rq, "idempotency-key", &value))
        return STATUS_OK;
    rc = key_read(value, &key, why);
    return rc ? rc : ingest_set_key(ingest, &key, why);
}

/* What a hub delivers is a subscriber's, and no publisher's post: taken in
 * here, under whatever name this broker was called by, it would be news of the
 * set, be delivered again, and so on for ever. A set takes in what another one
 * gives out by its upstreamTopic. */
static enum status
check_publisher(struct request *rq, struct problem *why)
{
    struct slice delivery;

    if (!request_header(rq, "tidings-delivery", &delivery))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "this is what a hub delivers (Tidings-Delivery \"%s\"), not "
                   "what a Source posts: a set takes in another topic as its "
                   "upstreamTopic",
                   problem_quote(delivery).text);
}

void
handle_changes_post(struct http *http, struct request *rq,
                    const struct holes *holes)
{
    struct slice type = {NULL, 0}, encoding;
    struct posting *p = calloc(1, sizeof(*p));
    struct problem why = {""};
    const char *allow = NULL;
    enum status rc = STATUS_OK;

    request_header(rq, "content-type", &type);
    if (!p)
        rc = problem(&why, STATUS_BUSY, "the broker has no memory left");
    else
        rc = check_publisher(rq, &why);
    if (!rc)
        rc = ingest_begin(&p->ingest, http->registry, holes->name, type,
                          request_content_length(rq), &why);
    if (!rc && request_header(rq, "content-encoding", &encoding)) {
        rc = ingest_decode(p->ingest, encoding, &why);
        allow = rc == STATUS_UNSUPPORTED ? INGEST_CODINGS : NULL;
    }
    if (!rc)
        rc = set_key(rq, p->ingest, &why);
    if (rc) {
        count_rejected(rc);
        posting_free(p);
        request_answer_problem(rq, response_status_of(rc), &why, allow, NULL);
        return;
    }
    p->task.run = on_behind;
    request_set_user(rq, p);
    request_receive(rq, &post_handlers);
}

/*
 * handle_changes.c - POST changes; GET change memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/documents/memory.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/ingest.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "proto/json.h"

/* POST: the body is read as it arrives; the answer comes back from the log
 * thread. The ingest outlives a connection that breaks meanwhile: what was
 * whole is committed all the same, only nobody is told. */
struct posting {
    struct task task; /* from the log thread to the connection's */
    struct ticket ticket;
    struct ingest *ingest;
};

static void
posting_free(struct posting *p)
{
    if (!p)
        return;
    ingest_free(p->ingest);
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

/* Service thread: the log has answered. */
static void
on_answered(struct task *task)
{
    struct posting *p = list_entry(task, struct posting, task);
    const struct post *post = ingest_post(p->ingest);
    struct request *rq = ticket_request(p->ticket);

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
    request_set_user(rq, NULL);
    posting_free(p);
    routes_answer_failure(rq, rc, why, NULL, NULL);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct posting *p = request_user(rq);
    struct problem why = {""};
    enum status rc = ingest_feed(p->ingest, bytes, &why);

    if (rc)
        refuse(rq, p, rc, &why);
}

static void
on_end(struct request *rq)
{
    struct posting *p = request_user(rq);
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
on_post_gone(struct request *rq)
{
    posting_free(request_user(rq));
}

static const struct request_handlers post_handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_post_gone,
};

void
handle_changes_post(struct http *http, struct request *rq, struct slice set)
{
    struct slice type = {NULL, 0}, encoding;
    struct posting *p = calloc(1, sizeof(*p));
    struct problem why = {""};
    enum status rc = STATUS_OK;

    request_header(rq, "content-type", &type);
    if (!p)
        rc = problem(&why, STATUS_BUSY, "the broker has no memory left");
    else if (request_header(rq, "content-encoding", &encoding) &&
             !slice_is(encoding, "identity"))
        rc = problem(&why, STATUS_UNSUPPORTED,
                     "a post is read without Content-Encoding, not as \"%s\"",
                     problem_quote(encoding).text);
    else
        rc = ingest_begin(&p->ingest, http->registry, set, type,
                          request_content_length(rq), &why);
    if (rc) {
        refuse(rq, p, rc, &why);
        return;
    }
    request_set_user(rq, p);
    request_receive(rq, &post_handlers);
}

/* GET: change memory. From memory at once, else by way of the worker pool. */

struct reading {
    struct job job;
    struct ticket ticket;
    struct set *set;
    struct head head;
    uint64_t after, last;
    struct body *body;
    enum status status;
    struct problem why;
};

/* links `self` and `next`. */
static void
answer_memory(struct request *rq, const struct reading *r)
{
    const char *url = registry_public_url(r->set->registry);
    struct link_text self =
        link_to(url, LINK_MEMORY, r->set->name, r->head.epoch, r->after);
    struct link_text next =
        link_to(url, LINK_MEMORY, r->set->name, r->head.epoch, r->last);
    struct response answer;

    if (r->status) {
        routes_answer_failure(rq, r->status, &r->why, r->set, &r->head);
        return;
    }
    response_init(&answer, 200, "application/json");
    response_header(&answer, "Link", "<%s>; rel=\"self\", <%s>; rel=\"next\"",
                    self.text, next.text);
    response_header(&answer, "Cache-Control", "no-cache");
    answer.body = r->body;
    request_answer(rq, &answer);
}

static void
read_work(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);

    r->status =
        memory_open(r->set, r->after, LOG_DISK, &r->body, &r->last, &r->why);
}

static void
read_done(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);
    struct request *rq = ticket_request(r->ticket);

    if (rq)
        answer_memory(rq, r);
    else if (r->body)
        r->body->free(r->body);
    free(r);
}

/* A request that waits for a job: the ticket tells the job that it is gone. */
static void
on_get_gone(struct request *rq)
{
    (void)rq;
}

static const struct request_handlers get_handlers = {.on_gone = on_get_gone};

/* Reads ?after=; absent means from the beginning of what is retained. */
static enum status
wanted_position(struct request *rq, const struct head *head, uint64_t *after,
                struct problem *why)
{
    struct slice text;
    bool is_bad = false;

    *after = head->earliest;
    if (!request_parameter(rq, "after", &text, &is_bad))
        return STATUS_OK;
    if (is_bad)
        return problem(why, STATUS_MALFORMED, "the query has a bad escape");
    return positions_judge(head, text, after, why);
}

void
handle_changes_get(struct http *http, struct request *rq, struct slice name)
{
    struct reading *r = calloc(1, sizeof(*r)), now;
    enum status rc;

    if (!r) {
        routes_answer_failure(rq, STATUS_BUSY, NULL, NULL, NULL);
        return;
    }
    r->set = routes_set(http, rq, name, &r->head);
    if (!r->set) {
        free(r);
        return;
    }
    rc = wanted_position(rq, &r->head, &r->after, &r->why);
    if (!rc)
        rc = memory_open(r->set, r->after, LOG_MEMORY, &r->body, &r->last,
                         &r->why);
    if (rc == STATUS_AGAIN) {
        r->ticket = request_ticket(rq);
        r->job.work = read_work;
        r->job.done = read_done;
        request_defer(rq, &get_handlers);
        service_work(request_service(rq), &r->job);
        return;
    }
    r->status = rc;
    now = *r;
    free(r);
    answer_memory(rq, &now);
}

/*
 * handle_multipart.c - POST changes with their content: multipart/related.
 */
#include <stdlib.h>

#include "broker/archive/archiver.h"
#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/posts/multipart_post.h"
#include "proto/memory.h"

/* A block of this size goes to the worker pool at once. */
#define BLOCK_BYTES ((size_t)512 << 10)

/* A block may be larger by the bytes that were read before the connection was
 * paused. */
#define BLOCK_MAX ((size_t)4 << 20)

/* Memory of a request, counted as of posts: two blocks and the parser. */
#define HELD (2 * BLOCK_BYTES + ((size_t)256 << 10))

/*
 * A worker parses one block, and writes it to the disk, while the next one
 * arrives; when that is full, too, the connection pauses:
 *
 *    on_data --> arrived --(full, or all)--> job: multipart_post_feed
 *       ^            |                             |
 *       |        (full: pause)                     |
 *       +------------------(resume)----------------+
 *
 *    on_end --> last job: multipart_post_end --> the log --> on_answered
 *
 * After a failure before the log has it, a job deletes its files before the
 * answer, so that the client may post again at once. A post that has
 * arrived completely is kept even if the connection breaks meanwhile. `rq` is
 * NULL after the end of the connection.
 */
struct multipart_request {
    struct http *http;
    struct service *service;
    struct request *rq;
    struct ticket ticket;
    struct task task;
    struct job job;
    struct multipart_post *post;
    struct buf arrived;
    struct holding holding; /* HELD, and the memory of the post */
    bool is_out;            /* the job is at work */
    bool is_whole;          /* the body has arrived */
    bool is_over;           /* it has failed: */
    enum status rc;
    struct problem why;

    /* For the job, while it is at work */
    struct buf block;
    bool is_last;
    enum status job_rc;
    struct problem job_why;
};

static void
free_multipart_request(struct multipart_request *c)
{
    multipart_post_discard(c->post);
    holding_end(&c->holding);
    buf_fini(&c->arrived);
    buf_fini(&c->block);
    free(c);
}

/* Failing */

static void
discard_work(struct job *job)
{
    struct multipart_request *c =
        list_entry(job, struct multipart_request, job);

    multipart_post_discard(c->post);
    c->post = NULL;
}

static void
discard_done(struct job *job)
{
    struct multipart_request *c =
        list_entry(job, struct multipart_request, job);
    struct request *rq = c->rq;

    holding_end(&c->holding);
    if (rq) {
        answers_count_rejected(c->rc);
        request_set_user(rq, NULL);
        request_resume(rq); /* drains the rest of the body */
        answers_failure(rq, c->rc, &c->why);
    }
    free_multipart_request(c);
}

/* Ends it. No job is at work. */
static void
discard_post(struct multipart_request *c)
{
    c->is_out = true;
    c->job.work = discard_work;
    c->job.done = discard_done;
    service_work(c->service, &c->job);
}

/* Refuses it; waits for a job at work. */
static void
refuse_post(struct multipart_request *c, enum status rc,
            const struct problem *why)
{
    c->is_over = true;
    c->rc = rc;
    c->why = *why;
    if (!c->is_out)
        discard_post(c);
}

/* Committing */

/* On the service thread: the log has answered. */
static void
on_answered(struct task *task)
{
    struct multipart_request *c =
        list_entry(task, struct multipart_request, task);
    struct request *rq = ticket_request(c->ticket);

    if (rq)
        request_set_user(rq, NULL);
    multipart_post_give_back(c->post);
    holding_end(&c->holding);
    answers_post(rq, multipart_post_ingest(c->post));
    free_multipart_request(c);
}

/* On the log thread. */
static void
on_committed(struct ingest *ingest, void *user)
{
    struct multipart_request *c = user;

    (void)ingest;
    service_post(c->service, &c->task);
}

/* Hands it to the log: it is complete and on the disk. The log owns it now. */
static void
commit_post(struct multipart_request *c)
{
    struct request *rq = c->rq;
    struct problem why = {""};
    enum status rc;

    c->task.run = on_answered;
    if (rq) {
        c->ticket = request_ticket(rq);
        request_set_user(rq, NULL);
        request_set_authority(rq, NULL); /* the log asks at the commit */
    }
    rc = multipart_post_commit(c->post, on_committed, c, &why);
    if (rc) {
        if (rq)
            request_set_user(rq, c);
        refuse_post(c, rc, &why);
    } else {
        log_wake(registry_log(c->http->registry));
    }
}

/* Reading */

static void
read_work(struct job *job)
{
    struct multipart_request *c =
        list_entry(job, struct multipart_request, job);

    c->job_rc = multipart_post_feed(c->post, buf_slice(&c->block), &c->job_why);
    if (!c->job_rc && c->is_last)
        c->job_rc = multipart_post_end(c->post, &c->job_why);
}

static void continue_post(struct multipart_request *c);

static void
read_done(struct job *job)
{
    struct multipart_request *c =
        list_entry(job, struct multipart_request, job);

    c->is_out = false;
    buf_clear(&c->block);
    if (c->is_over)
        discard_post(c);
    else if (c->job_rc)
        refuse_post(c, c->job_rc, &c->job_why);
    else if (c->is_last)
        commit_post(c);
    else
        continue_post(c);
}

/* Does the next step, unless a job is at work. */
static void
continue_post(struct multipart_request *c)
{
    struct problem why = PROBLEM_MEMORY;

    if (c->arrived.failed) {
        refuse_post(c, STATUS_MEMORY, &why);
    } else if (c->is_whole || c->arrived.size >= BLOCK_BYTES) {
        struct buf empty = c->block;

        c->block = c->arrived;
        c->arrived = empty;
        c->is_last = c->is_whole;
        c->is_out = true;
        c->job.work = read_work;
        c->job.done = read_done;
        if (c->rq)
            request_resume(c->rq);
        service_work(c->service, &c->job);
    }
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct multipart_request *c = request_user(rq);

    if (c->is_over)
        return;
    buf_add_slice(&c->arrived, bytes);
    if (!c->is_out)
        continue_post(c);
    else if (c->arrived.size >= BLOCK_BYTES)
        request_pause(rq);
}

static void
on_end(struct request *rq)
{
    struct multipart_request *c = request_user(rq);

    c->is_whole = true;
    if (!c->is_out)
        continue_post(c);
}

static void
on_gone(struct request *rq)
{
    struct multipart_request *c = request_user(rq);

    if (!c)
        return; /* the log owns it */
    c->rq = NULL;
    if (c->is_whole && !c->is_over)
        return; /* it continues all the same */
    if (!c->is_over)
        metrics_add(METRIC_POSTS_INCOMPLETE, 1);
    c->is_over = true;
    if (!c->is_out)
        discard_post(c);
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    struct multipart_request *c = request_user(rq);

    if (!c->is_over)
        refuse_post(c, rc, why);
}

static const struct request_handlers handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_gone,
    .on_broken = on_broken,
};

static enum status
begin_post(struct multipart_request *c, struct request *rq,
           const struct route_target *target, struct problem *why)
{
    struct slice type = {NULL, 0};
    struct key key;
    enum status rc = answers_check_publisher(rq, why);

    request_header(rq, "content-type", &type);
    if (!rc)
        rc = answers_read_key(rq, target->principal, &key, why);
    holding_init(&c->holding, registry_clients(c->http->registry),
                 request_client(rq), CLIENT_POSTS);
    if (!rc) {
        const struct multipart_plan plan = {
            .contents = archiver_contents(c->http->archiver),
            .set_name = target->name,
            .content_type = type,
            .size = request_content_length(rq),
            .holding = &c->holding,
            .authority = request_authority(rq),
        };

        rc = multipart_post_begin(&c->post, c->http->posts, &plan, why);
    }
    if (rc)
        return rc;
    multipart_post_set_key(c->post, &key);
    return holding_add(&c->holding, HELD, why);
}

void
handle_multipart_post(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct multipart_request *c = memory_new(1, sizeof(*c));
    struct problem why = {""};
    enum status rc;

    c->http = http;
    c->service = request_service(rq);
    c->rq = rq;
    buf_init(&c->arrived, BLOCK_MAX);
    buf_init(&c->block, BLOCK_MAX);
    rc = begin_post(c, rq, target, &why);
    if (rc) {
        answers_count_rejected(rc);
        free_multipart_request(c);
        answers_failure(rq, rc, &why);
        return;
    }
    request_set_user(rq, c);
    request_receive(rq, &handlers, target->body_max);
}

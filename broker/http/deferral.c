#include "broker/http/deferral.h"

#include <openssl/crypto.h>

#include "broker/http/answers.h"
#include "broker/http/route_table.h"
#include "broker/net/response.h"

void *
deferral_new(const struct route_call *call, const struct deferral_kind *kind,
             size_t size)
{
    struct deferral *d = memory_new(1, size);
    const struct route *route = call->rq->route;

    d->kind = kind;
    d->http = call->http;
    d->effort.most = route ? route->effort : 0;
    d->principal = principal_ref(call->principal);
    d->ticket.service = call->rq->service;
    holding_init(&d->holding, &d->http->registry->clients,
                 request_client(call->rq), CLIENT_POSTS);
    return d;
}

static void
wipe(struct buf *buf)
{
    if (buf->data)
        OPENSSL_cleanse(buf->data, buf->capacity);
}

void
deferral_free(struct deferral *d)
{
    if (d->kind->fini)
        d->kind->fini(d);
    if (!d->is_counted) {
        wipe(&d->body);
        wipe(&d->text);
    }
    buf_fini(&d->body);
    buf_fini(&d->text);
    holding_end(&d->holding);
    effort_leave(&d->effort);
    authority_unref(d->authority);
    principal_unref(d->principal);
    free(d->refusal);
    free(d->failure);
    free(d);
}

/* Frees it, then answers with the failure, which it counts. Not while a step is
 * at work, nor when the act owns it. */
static void
answer_refusal(struct deferral *d, enum status rc, const struct problem *why)
{
    struct request *rq = d->rq;
    struct problem kept = *why; /* it may be the deferral's */

    if (rq) {
        answers_count(d->kind->rejected, response_status_of(rc));
        rq->user = NULL;
    }
    deferral_free(d);
    if (!rq)
        return;
    request_resume(rq); /* drains the rest of the body */
    request_answer_problem(rq, response_status_of(rc), &kept);
}

/* The act */

static struct problem *
copy_problem(const struct problem *why, enum status rc)
{
    struct problem *copy = memory_room(sizeof(*copy));

    *copy = *why;
    copy->rc = rc;
    return copy;
}

static void
answer_request(struct deferral *d)
{
    struct request *rq = ticket_request(d->ticket);

    if (rq)
        rq->user = NULL;
    if (d->kind->give_back)
        d->kind->give_back(d);
    holding_end(&d->holding);
    effort_leave(&d->effort);
    if (d->failure)
        answers_count(d->kind->rejected, response_status_of(d->failure->rc));
    if (rq && d->failure)
        request_answer_problem(rq, response_status_of(d->failure->rc),
                               d->failure);
    else if (rq)
        d->kind->answer(d, rq);
    deferral_free(d);
}

static void
on_ended(struct task *task)
{
    answer_request(list_entry(task, struct deferral, task));
}

void
deferral_end(struct deferral *d, enum status rc, const struct problem *why)
{
    if (rc)
        d->failure = copy_problem(why, rc);
    d->task.run = on_ended;
    service_post(d->ticket.service, &d->task);
}

/* Jobs of workers */

/* Takes the steps back, takes one, or carries out the act. */
static void
on_work(struct job *job)
{
    struct deferral *d = list_entry(job, struct deferral, job);
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (d->is_discarding)
        d->kind->discard(d);
    else if (!load_relaxed(&d->effort.is_unwanted))
        rc = (d->kind->begin ? d->kind->step : d->kind->work)(d, &why);
    d->is_paused = rc == STATUS_AGAIN && d->effort.efforts;
    if (rc && !d->is_paused)
        d->failure = copy_problem(&why, rc);
}

static void on_worked(struct job *job);

static void
give_job(struct deferral *d)
{
    d->is_out = true;
    d->job = (struct job){.work = on_work, .done = on_worked};
    service_work(d->ticket.service, &d->job);
}

static void
on_turn(struct task *task)
{
    struct deferral *d = list_entry(task, struct deferral, task);
    struct request *rq = ticket_request(d->ticket);

    if (rq)
        request_check_client(rq);
    give_job(d); /* which does nothing if nobody waits for it */
}

static void
begin_turn(struct effort *effort)
{
    struct deferral *d = list_entry(effort, struct deferral, effort);

    d->task.run = on_turn;
    service_post(d->ticket.service, &d->task);
}

/* Lets it wait for a turn of the client. */
static enum status
wait_for_turn(struct deferral *d, struct problem *why)
{
    d->effort.efforts = &d->http->efforts;
    d->effort.begin = begin_turn;
    return effort_wait(&d->effort, &d->http->registry->clients,
                       d->holding.client, why);
}

static void on_gone(struct request *rq);

/* Watches for the end of a request whose answer is long work. */
static enum status
begin_long(struct deferral *d, struct request *rq, struct problem *why)
{
    static const struct request_handlers handlers = {.on_gone = on_gone};

    if (!rq) {
        deferral_free(d);
        return STATUS_OK;
    }
    rq->user = d;
    rq->handlers = &handlers;
    return wait_for_turn(d, why);
}

void
deferral_begin(struct deferral *d, struct request *rq)
{
    struct problem why = {""};
    enum status rc;

    d->rq = rq;
    d->is_begun = true;
    if (rq) {
        rq->user = NULL;
        d->ticket = request_ticket(rq);
        d->authority = d->decides ? request_take_authority(rq)
                                  : authority_ref(request_authority(rq));
    }
    if (!d->kind->begin && d->effort.most == 0) {
        give_job(d);
        return;
    }
    rc = d->kind->begin ? d->kind->begin(d, &why) : begin_long(d, rq, &why);
    if (rc)
        answer_refusal(d, rc, &why);
}

/* Refusals while the body comes */

/* Ends it, after its steps were taken back. No job is at work. */
static void
discard(struct deferral *d)
{
    if (d->kind->discard && !d->is_discarding) {
        d->is_discarding = true;
        give_job(d);
    } else if (d->refusal) {
        answer_refusal(d, d->refusal->rc, d->refusal);
    } else {
        deferral_free(d);
    }
}

/* Refuses it; waits for a job at work. */
static void
refuse(struct deferral *d, enum status rc, const struct problem *why)
{
    if (d->is_over)
        return;
    d->is_over = true;
    d->refusal = copy_problem(why, rc);
    if (!d->is_out)
        discard(d);
}

/* Steps */

/* Does the next step, unless one is at work. */
static void
proceed(struct deferral *d)
{
    enum deferral_next next = d->is_last || (d->is_whole && !d->kind->next)
                                  ? DEFERRAL_BEGINS
                                  : DEFERRAL_READS;
    struct problem why = {""};

    if (d->is_out)
        return;
    if (d->kind->next && !d->is_last)
        next = d->kind->next(d, &why);
    if (next == DEFERRAL_FAILS) {
        refuse(d, why.rc, &why);
    } else if (next == DEFERRAL_BEGINS) {
        deferral_begin(d, d->rq);
    } else if (next == DEFERRAL_READS) {
        request_resume(d->rq);
    } else {
        d->is_last = next == DEFERRAL_ENDS;
        give_job(d);
    }
}

static void
on_worked(struct job *job)
{
    struct deferral *d = list_entry(job, struct deferral, job);
    struct problem why = {""};

    d->is_out = false;
    if (d->effort.efforts)
        effort_end(&d->effort);
    if (d->is_paused && !load_relaxed(&d->effort.is_unwanted)) {
        enum status rc = wait_for_turn(d, &why);

        if (!rc)
            return;
        d->failure = copy_problem(&why, rc);
    }
    if (!d->kind->begin)
        answer_request(d);
    else if (d->is_over)
        discard(d);
    else if (d->failure)
        refuse(d, d->failure->rc, d->failure);
    else
        proceed(d);
}

/* The body */

static void
on_data(struct request *rq, struct slice bytes)
{
    struct deferral *d = rq->user;
    size_t before = d->body.capacity;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (d->is_over)
        return;
    if (d->kind->take) {
        rc = d->kind->take(d, bytes, &why);
    } else {
        buf_add_slice(&d->body, bytes);
        if (d->body.failed)
            rc = problem_memory(&why);
        else if (d->is_counted && d->body.capacity > before)
            rc = holding_add(&d->holding, d->body.capacity - before, &why);
    }
    if (rc)
        refuse(d, rc, &why);
    else
        proceed(d);
}

static void
on_end(struct request *rq)
{
    struct deferral *d = rq->user;

    d->is_whole = true;
    if (!d->is_over)
        proceed(d);
}

static void
on_gone(struct request *rq)
{
    struct deferral *d = rq->user;

    if (!d)
        return; /* the act owns it */
    d->rq = NULL;
    if (d->is_begun) {
        if (effort_cancel(&d->effort))
            deferral_free(d);
        return;
    }
    if (d->is_whole && !d->is_over)
        return; /* it goes on all the same */
    if (!d->is_over && d->kind->incomplete)
        metrics_add(d->kind->incomplete, 1);
    d->is_over = true;
    if (!d->is_out)
        discard(d);
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    refuse(rq->user, rc, why);
}

enum status
deferral_receive(struct deferral *d, const struct route_call *call,
                 enum status rc)
{
    static const struct request_handlers handlers = {
        .on_data = on_data,
        .on_end = on_end,
        .on_gone = on_gone,
        .on_broken = on_broken,
    };

    if (rc) {
        deferral_free(d);
        return rc;
    }
    buf_init(&d->body,
             d->kind->body_max ? d->kind->body_max : (size_t)call->body_max);
    /* Makes all room for a small body at once: growing would leave copies of a
     * secret behind. */
    d->rq = call->rq;
    if (!d->kind->take && !d->is_counted && d->rq->in.length > 0)
        (void)buf_room(&d->body, (size_t)d->rq->in.length);
    d->rq->user = d;
    request_receive(d->rq, &handlers, call->body_max);
    return STATUS_OK;
}

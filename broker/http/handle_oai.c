/*
 * handle_oai.c - GET and POST /sets/NAME/oai: OAI-PMH (broker/documents/oai.h).
 */

#include "broker/documents/oai.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"

/* A page of 256 KiB, and a record with as many tags as fit into its entry. */
#define ANSWER_MAX ((size_t)4 << 20)

/* A harvester waits so long for its records to be made, or comes again. */
#define PATIENCE_US 20000000

struct oai_request {
    struct deferral deferral; /* its body is the form */
    struct set *set;
    int64_t until_us;
};

static enum status
write_answer(struct deferral *d, struct problem *why)
{
    struct oai_request *o = list_entry(d, struct oai_request, deferral);
    enum status rc =
        oai_answer(&d->text, o->set, buf_slice(&d->body), &d->effort, why);

    return rc == STATUS_AGAIN && clock_steady_us() > o->until_us
               ? problem(why, STATUS_BUSY, "the records are not ready yet")
               : rc;
}

static void
send_answer(struct deferral *d, struct request *rq)
{
    struct oai_request *o = list_entry(d, struct oai_request, deferral);

    answers_buf(rq, 200, "text/xml; charset=utf-8",
                answers_cache_control(set_is_private(o->set)), &d->text);
}

enum status
handle_oai(const struct route_call *call)
{
    static const struct deferral_kind kind = {.work = write_answer,
                                              .answer = send_answer};
    struct oai_request *o = deferral_new(call, &kind, sizeof(*o));

    o->set = call->set;
    o->until_us = clock_steady_us() + PATIENCE_US;
    buf_init(&o->deferral.text, ANSWER_MAX);
    if (call->rq->method == METHOD_POST)
        return deferral_receive(&o->deferral, call, STATUS_OK);
    buf_init(&o->deferral.body, call->rq->query.size);
    buf_add_slice(&o->deferral.body, call->rq->query);
    deferral_begin(&o->deferral, call->rq);
    return STATUS_OK;
}

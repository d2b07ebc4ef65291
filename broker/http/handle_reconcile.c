/*
 * handle_reconcile.c - POST /sets/NAME/reconcile: compares a copy of a set with
 * its resources (broker/documents/reconcile.h).
 *
 *     ?after=POSITION   the state has at least that position
 *     &entries=yes      the body has ids; the answer is a Resource List
 */

#include "broker/documents/reconcile.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/net/response.h"
#include "broker/sets/positions.h"

struct reconciling {
    struct deferral deferral; /* its body is the message, or ids */
    struct document_wish wish;
    uint64_t least; /* position */
    bool wants_entries;
    uint64_t seq; /* of the answer */
};

static enum status
write_answer(struct deferral *d, struct problem *why)
{
    struct reconciling *r = list_entry(d, struct reconciling, deferral);

    return reconcile_answer(&d->text, &r->wish, r->least, buf_slice(&d->body),
                            r->wants_entries, &r->seq, why);
}

static void
send_answer(struct deferral *d, struct request *rq)
{
    struct reconciling *r = list_entry(d, struct reconciling, deferral);
    struct response answer;

    response_init(&answer, 200,
                  r->wants_entries ? "application/xml"
                                   : "application/octet-stream",
                  "no-store");
    response_header(&answer, "Tidings-Position", "%s-%" PRIu64,
                    r->wish.head.epoch, r->seq);
    response_text(&answer, &d->text);
    request_answer(rq, &answer);
}

enum status
handle_reconcile(const struct route_call *call)
{
    static const struct deferral_kind kind = {.work = write_answer,
                                              .answer = send_answer};
    struct reconciling *r = deferral_new(call, &kind, sizeof(*r));
    struct slice after;
    enum status rc = STATUS_OK;

    if (request_parameter(call->rq, "after", &after))
        rc = positions_judge(&call->head, after, &r->least, call->why);
    if (!rc)
        rc = query_yes(call->rq, "entries", &r->wants_entries, call->why);
    r->wish = (struct document_wish){
        .registry = call->http->registry,
        .set = call->set,
        .head = call->head,
        .effort = &r->deferral.effort,
    };
    r->deferral.is_counted = true;
    buf_init(&r->deferral.text, RECONCILE_ENTRIES_MAX);
    return deferral_receive(&r->deferral, call, rc);
}

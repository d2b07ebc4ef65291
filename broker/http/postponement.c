#include "broker/http/postponement.h"

#include "broker/net/response.h"
#include "broker/push/subscribers.h"

static void
on_gone(struct request *rq)
{
    struct postponement *p = request_user(rq);

    copy_waits_cancel(&p->wait);
    p->go_on(p, NULL, false);
}

static void
go_on(struct request *rq, void *user)
{
    struct postponement *p = user;

    p->go_on(p, rq, p->is_certain);
}

static void
resume_request(struct copy_wait *wait, bool is_certain)
{
    struct postponement *p = list_entry(wait, struct postponement, wait);

    p->is_certain = is_certain;
    request_set_user(p->rq, NULL);
    request_again(p->rq, go_on, p);
}

bool
postponement_begin(struct postponement *p, struct http *http,
                   struct request *rq)
{
    static const struct request_handlers handlers = {.on_gone = on_gone};

    p->rq = rq;
    p->wait.resume = resume_request;
    if (!push_await_copy(http->push, request_service(rq), &p->wait))
        return false;
    request_set_user(rq, p);
    request_defer(rq, &handlers);
    return true;
}

void
postponement_refuse(struct request *rq)
{
    if (!request_answer_events_later(rq))
        request_refuse(rq, 503, POSITION_LATER);
}

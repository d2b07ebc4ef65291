#include "broker/http/postponement.h"

#include "broker/net/response.h"
#include "broker/push/stream_sets.h"

bool
postponement_is_ahead(struct http *http, struct request *rq,
                      struct slice last_id, struct slice json)
{
    struct follow_request follow = {.n = 0};
    bool is = (!json.size || !follow_request_json(&follow, json, NULL)) &&
              !follow_request_query(&follow, rq->query, NULL);

    if (is && last_id.size)
        follow_request_resume(&follow, last_id);
    is = is && stream_sets_are_ahead(http->registry, &follow);
    follow_request_fini(&follow);
    return is;
}

static void
on_gone(struct request *rq)
{
    struct postponement *p = rq->user;

    list_remove(&p->wait.node);
    p->go_on(p, NULL);
}

static void
go_on(struct request *rq, void *user)
{
    struct postponement *p = user;

    if (request_deny(rq)) {
        rq = NULL;
    } else if (!p->is_certain) {
        postponement_refuse(rq);
        rq = NULL;
    }
    p->go_on(p, rq);
}

static void
resume_request(struct catch_up_wait *wait, bool is_certain)
{
    struct postponement *p = list_entry(wait, struct postponement, wait);

    p->is_certain = is_certain;
    p->rq->user = NULL;
    request_again(p->rq, go_on, p);
}

bool
postponement_begin(struct postponement *p, struct request *rq)
{
    static const struct request_handlers handlers = {.on_gone = on_gone};

    p->rq = rq;
    p->wait.resume = resume_request;
    if (!push_await_copy(p->http->push, rq->service, &p->wait))
        return false;
    rq->user = p;
    rq->handlers = &handlers;
    return true;
}

void
postponement_refuse(struct request *rq)
{
    if (!request_answer_events_later(rq))
        request_refuse(rq, 503, POSITION_LATER);
}

#include "broker/http/made.h"

#include <stdlib.h>

#include "broker/http/routes.h"
#include "broker/net/response.h"

struct making {
    struct job job;
    struct ticket ticket;
    struct http *http;
    const char *content_type;
    void (*make)(struct http *http, struct buf *to);
    struct buf text;
};

static void
work(struct job *job)
{
    struct making *m = list_entry(job, struct making, job);

    m->make(m->http, &m->text);
}

static void
done(struct job *job)
{
    struct making *m = list_entry(job, struct making, job);
    struct request *rq = ticket_request(m->ticket);
    struct response r;

    if (rq && m->text.failed) {
        routes_answer_failure(rq, STATUS_MEMORY, NULL, NULL, NULL);
    } else if (rq) {
        response_init(&r, 200, m->content_type);
        response_header(&r, "Cache-Control", "no-store");
        r.text = buf_slice(&m->text);
        request_answer(rq, &r);
    }
    buf_fini(&m->text);
    free(m);
}

void
made_answer(struct http *http, struct request *rq, const char *content_type,
            size_t max, void (*make)(struct http *http, struct buf *to))
{
    struct making *m = calloc(1, sizeof(*m));

    if (!m) {
        routes_answer_failure(rq, STATUS_MEMORY, NULL, NULL, NULL);
        return;
    }
    m->job = (struct job){.work = work, .done = done};
    m->ticket = request_ticket(rq);
    m->http = http;
    m->content_type = content_type;
    m->make = make;
    buf_init(&m->text, max);
    service_work(request_service(rq), &m->job);
}

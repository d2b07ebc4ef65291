/*
 * handle_metrics.c - what the broker counts, for Prometheus.
 */
#include <stdlib.h>

#include "broker/base/metrics.h"
#include "broker/base/process.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"

/* Some 20 KB; the rows are bounded, see metrics.h. */
#define TEXT_MAX ((size_t)1 << 20)

/* Made at the worker pool, because the process is asked for in /proc. */
struct scrape {
    struct job job;
    struct ticket ticket;
    struct http *http;
    struct buf text;
};

static void
scrape_work(struct job *job)
{
    struct scrape *s = list_entry(job, struct scrape, job);

    metrics_set(METRIC_BUILD_INFO, 1);
    registry_measure(s->http->registry);
    push_measure(s->http->push);
    process_measure();
    metrics_write(&s->text);
}

static void
scrape_done(struct job *job)
{
    struct scrape *s = list_entry(job, struct scrape, job);
    struct request *rq = ticket_request(s->ticket);
    struct response r;

    if (rq && s->text.failed) {
        routes_answer_failure(rq, STATUS_BUSY, NULL, NULL, NULL);
    } else if (rq) {
        response_init(&r, 200, METRICS_TYPE);
        response_header(&r, "Cache-Control", "no-store");
        r.text = buf_slice(&s->text);
        request_answer(rq, &r);
    }
    buf_fini(&s->text);
    free(s);
}

/* The ticket tells the job that the request is gone. */
static void
on_gone(struct request *rq)
{
    (void)rq;
}

static const struct request_handlers handlers = {.on_gone = on_gone};

void
handle_metrics_get(struct http *http, struct request *rq,
                   const struct holes *holes)
{
    struct scrape *s = calloc(1, sizeof(*s));

    (void)holes;
    if (!s) {
        routes_answer_failure(rq, STATUS_BUSY, NULL, NULL, NULL);
        return;
    }
    s->http = http;
    s->ticket = request_ticket(rq);
    s->job.work = scrape_work;
    s->job.done = scrape_done;
    buf_init(&s->text, TEXT_MAX);
    request_defer(rq, &handlers);
    service_work(request_service(rq), &s->job);
}

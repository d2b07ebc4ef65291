/*
 * handle_metrics.c - the broker's metrics, for Prometheus.
 */
#include "broker/base/metrics.h"
#include "broker/base/process_metrics.h"
#include "broker/http/made.h"
#include "broker/http/routes.h"

/* Some 20 KB; the rows are bounded, see metrics.h. */
#define TEXT_MAX ((size_t)1 << 20)

/* process_measure reads /proc. */
static void
scrape(struct http *http, struct buf *to)
{
    metrics_set(METRIC_BUILD_INFO, 1);
    registry_measure(http->registry);
    push_measure(http->push);
    bridges_measure(http->bridges);
    process_measure();
    metrics_write(to);
}

void
handle_metrics_get(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    (void)target;
    made_answer(http, rq, METRICS_TYPE, TEXT_MAX, scrape);
}

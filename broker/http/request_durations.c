#include "broker/http/request_durations.h"

#include <assert.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/documents/documents.h"
#include "broker/http/route_table.h"
#include "broker/net/request_end.h"

static const char *document_paths[METRIC_ROUTES_MAX];
static size_t n_documents;

void
request_durations_init(void)
{
    struct document_found row;
    const char *path;

    for (size_t i = 0; i < route_table_size; i++)
        metrics_name_route(i, method_name(route_table[i].method),
                           route_table[i].path);
    for (n_documents = 0; (path = documents_row(n_documents, &row));
         n_documents++) {
        assert(route_table_size + n_documents + 1 < METRIC_ROUTES_MAX);
        document_paths[n_documents] = path;
        metrics_name_route(route_table_size + n_documents, "GET", path);
    }
    metrics_name_route(route_table_size + n_documents, "other", "none");
}

static size_t
row_of(const struct request_end *end)
{
    size_t i = 0;

    if (end->route && end->route != &route_documents)
        return (size_t)((const struct route *)end->route - route_table);
    while (i < n_documents &&
           (!end->route || document_paths[i] != end->pattern))
        i++;
    return route_table_size + i; /* the last row is "none" */
}

/* True if the request asks to wait for changes. */
static bool
is_long_poll(struct slice query)
{
    while (query.size > 0)
        if (slice_starts(slice_take(&query, '&'), "wait="))
            return true;
    return false;
}

void
request_durations_count(const struct request_end *end)
{
    if (!end->is_stream && !is_long_poll(end->query))
        metrics_observe_request(row_of(end), end->status, end->duration_us);
}

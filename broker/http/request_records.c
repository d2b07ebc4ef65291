#include "broker/http/request_records.h"

#include <assert.h>

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "broker/documents/documents.h"
#include "broker/http/route_table.h"

/* The access log */

/* The log keeps less. */
#define QUERY_MAX 512

/* True if `name` is in a list with commas between; NULL: an empty one. */
static bool
names(const char *list, struct slice name)
{
    struct slice rest = slice_of(list ? list : "");

    while (rest.size)
        if (slice_equal(slice_trimmed(slice_take(&rest, ',')), name))
            return true;
    return false;
}

static void
add_parameter(struct buf *to, struct slice text)
{
    if (to->size)
        BUF_ADD(to, "&");
    buf_add_slice(to, text);
}

static void
add_line(struct access_log *log, const struct request_end *end)
{
    const struct route *route = end->route;
    struct slice rest = end->query;
    bool has_others = false;
    char query[QUERY_MAX];
    struct buf shown;
    struct access_entry entry = {
        .time_us = clock_now_us(),
        .duration_us = end->duration_us,
        .received_bytes = end->received_bytes,
        .sent_bytes = end->sent_bytes,
        .n_messages = end->n_messages,
        .method = end->method < METHODS ? method_name(end->method) : NULL,
        .pattern = end->pattern,
        .status = end->status,
        .is_stream = end->is_stream,
        .is_whole = end->is_whole,
        .client = end->client,
        .id = end->id,
        .name = end->name,
        .path = end->path,
        .agent = end->agent,
    };

    /* Copies the parameters of the route that hold no secret; the others become
     * "...", once. */
    buf_init_fixed(&shown, query, sizeof(query));
    while (rest.size) {
        struct slice text = slice_take(&rest, '&'), value = text;
        struct slice name = slice_take(&value, '=');

        if (route && names(route->parameters, name) &&
            !names(route->secrets, name))
            add_parameter(&shown, text);
        else
            has_others = true;
    }
    if (has_others)
        add_parameter(&shown, SLICE("..."));
    entry.query = (struct slice){query, shown.size};
    access_log_add(log, service_number(end->service), &entry);
}

/* The metric */

static const char *document_paths[METRIC_ROUTES_MAX];
static size_t n_documents;

void
request_records_init(void)
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

void
request_records_add(struct access_log *log, const struct request_end *end)
{
    struct slice query;
    size_t row = 0;

    if (access_log_is_on(log))
        add_line(log, end);
    /* Counts the request. Streams and long polls (wait=) do not count: they
     * last as long as the client wants. */
    query = end->query;
    while (query.size > 0)
        if (slice_starts(slice_take(&query, '&'), "wait="))
            return;
    if (end->is_stream)
        return;
    if (end->route && end->route != &route_documents) {
        row = (size_t)((const struct route *)end->route - route_table);
    } else {
        while (row < n_documents &&
               (!end->route || document_paths[row] != end->pattern))
            row++;
        row += route_table_size; /* the last row is "none" */
    }
    metrics_observe_request(row, end->status, end->duration_us);
}

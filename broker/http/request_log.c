#include "broker/http/request_log.h"

#include <string.h>

#include "base/clock.h"
#include "broker/http/route_table.h"
#include "proto/buf.h"

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

/* Copies the parameters of the route that hold no secret; the others become
 * "...", once. */
static void
copy_query(struct buf *to, const struct route *route, struct slice query)
{
    bool has_others = false;

    while (query.size) {
        struct slice text = slice_take(&query, '&'), rest = text;
        struct slice name = slice_take(&rest, '=');

        if (route && names(route->parameters, name) &&
            !names(route->secrets, name))
            add_parameter(to, text);
        else
            has_others = true;
    }
    if (has_others)
        add_parameter(to, SLICE("..."));
}

void
request_log_add(struct access_log *log, const struct request_end *end)
{
    char query[QUERY_MAX];
    struct buf shown = {
        .data = query, .capacity = sizeof(query), .max = sizeof(query)};
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

    if (!access_log_is_on(log))
        return;
    copy_query(&shown, end->route, end->query);
    entry.query = (struct slice){query, shown.size};
    access_log_add(log, service_number(end->service), &entry);
}

#include "broker/http/http.h"

#include <assert.h>

#include "broker/documents/documents.h"
#include "broker/http/authorization.h"
#include "broker/http/origins.h"
#include "broker/http/route_table.h"
#include "broker/http/session.h"
#include "broker/net/response.h"

/* Returns the sign that a proxy sent the request: a header about its client, or
 * HTTP/1.0. nginx with a bare proxy_pass sends HTTP/1.0, with our own name as
 * Host, and with Connection; text browsers (lynx, w3m) send no such field, and
 * only read. NULL: no sign. A bare HAProxy looks
 * like a client; but it passes the Host on, so a remote client must forge ours,
 * with its port. (The user of the socket is no sign: programs of the same
 * service accounts publish, too.) */
static const char *
sign_of_proxy(struct request *rq)
{
    static const char *const headers[] = {
        "forwarded",         "via",      "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-proto", "x-real-ip"};
    struct slice value;

    for (size_t i = 0; i < N_ELEMENTS(headers); i++)
        if (request_header(rq, headers[i], &value))
            return headers[i];
    return rq->is_1_0 &&
                   (request_header(rq, "connection", &value) ||
                    (rq->method != METHOD_GET && rq->method != METHOD_HEAD))
               ? "HTTP/1.0"
               : NULL;
}

static bool
may_come_from(const struct http *http, struct request *rq, struct slice origin)
{
    enum method method = rq->method;
    enum origins_verdict verdict;
    struct slice value;

    /* A page cannot be both. */
    if (origins_are_own(http, rq, origin))
        return !rq->is_upgrade || !session_is_of_other_site(rq);
    verdict =
        http->origins ? origins_judge(http->origins, origin) : CORS_FOREIGN;
    /* Pages that may only read do so without a token. */
    return verdict == CORS_ALLOWED ||
           (verdict == CORS_READER &&
            authorization_sent(rq, &value) == SENT_NOTHING &&
            (method == METHOD_GET || method == METHOD_HEAD ||
             method == METHOD_OPTIONS));
}

/*
 * A client that a proxy serves may be anywhere.
 *
 * Any page can make a browser on this machine send requests here. Such a
 * request has a Host that is not ours (a name that points here), or an Origin
 * that is not ours. Other clients send neither.
 *
 * A probe (struct route) may use any name, and come by a proxy.
 */
static bool
may_come_in(const struct http *http, struct request *rq, bool is_probe,
            struct problem *why)
{
    struct slice origin = {NULL, 0};
    const char *sign =
        http_is_local(http) && !is_probe ? sign_of_proxy(rq) : NULL;
    bool has_origin = request_header(rq, "origin", &origin);

    if (rq->listener == LISTENER_CONTROL)
        return true; /* the operator's own request */
    if (http->origins)
        origins_mark(rq, http->origins, origin);
    if (sign) {
        problem_set(why,
                    "this broker is open to its own machine only, and this "
                    "request came by a proxy (%s): behind one, give clients "
                    "tokens (tidingsd token add), or give tidingsd "
                    "--insecure-open and let the proxy say who may publish",
                    sign);
        return false;
    }
    if (!is_probe && !origins_may_call(http, rq, NULL, why))
        return false;
    if (has_origin ? may_come_from(http, rq, origin)
                   : !rq->is_upgrade || !session_is_of_other_site(rq))
        return true;
    problem_set(why, "requests from pages of \"%s\" are not allowed",
                has_origin ? problem_quote(origin).text : "another site");
    return false;
}

/* A broker that is cut off from its cluster says with each document, page and
 * stream how old it may be. */
static void
add_as_of(const struct http *http, struct request *rq)
{
    char line[64], datetime[DATETIME_SIZE];
    struct log *log = http->registry->log;
    struct log_copy copy;
    int n;

    if (!log_is_shared(log) ||
        (rq->method != METHOD_GET && rq->method != METHOD_HEAD))
        return;
    log_copy(log, &copy);
    if (!copy.is_cut_off)
        return;
    datetime_write(datetime, copy.as_of_us);
    n = snprintf(line, sizeof(line), "Tidings-As-Of: %.*s\r\n", DATETIME_SIZE,
                 datetime);
    request_add_lines(rq, (struct slice){line, (size_t)n});
}

/* The request ends with its authority, which refers to the principal: that of a
 * session or a certificate, or the principal's own. */
static void
answer_principal(struct http *http, struct request *rq,
                 const struct route_found *found, struct principal *principal)
{
    struct problem why = {""};

    if (request_authority(rq))
        principal_unref(principal);
    else
        request_set_authority(rq, &principal->authority);
    request_set_name(rq, principal->name);
    if (!found->route->is_probe &&
        !origins_may_call(http, rq, principal, &why)) {
        request_answer_problem(rq, 403, &why);
        return;
    }
    if (principal->name[0] && !principal->is_everyone)
        request_set_owner(rq, client_of_owner(&http->registry->clients,
                                              slice_of(principal->name)));
    routes_run(http, rq, found, principal);
    /* An answer that everybody may have goes on. POST /hub asks for rights
     * itself. */
    if (!found->rights && rq->method != METHOD_POST)
        request_set_authority(rq, NULL);
}

void
http_on_request(struct request *rq, void *user)
{
    struct http *http = user;
    struct problem why = {""};
    struct route_found found;
    struct principal *principal;
    struct slice host;
    bool is_probe;

    if (access_log_is_on(http->access_log))
        request_keep_for_log(rq);
    if (slice_is(rq->path, "/hub"))
        rq->is_text = true; /* W-032 */
    if (!atomic_load_explicit(&http->is_ready, memory_order_acquire)) {
        /* Even now the process answers. */
        if (slice_is(rq->path, "/healthz") &&
            (rq->method == METHOD_GET || rq->method == METHOD_HEAD)) {
            (void)handle_health_get(&(struct route_call){.rq = rq});
            return;
        }
        if (!request_answer_events_later(rq))
            request_refuse(rq, 503, "the broker is starting");
        return;
    }
    routes_find(rq->method, rq->path, &found);
    is_probe = found.route && found.route->is_probe;
    /* HAProxy's default probe; the answer has the methods alone. */
    is_probe |= rq->method == METHOD_OPTIONS && rq->is_1_0 &&
                !request_header(rq, "host", &host);
    if (!may_come_in(http, rq, is_probe, &why)) {
        request_answer_problem(rq, 403, &why);
        return;
    }
    add_as_of(http, rq);
    rq->route = found.route;
    rq->pattern = found.pattern;
    if (rq->method == METHOD_OPTIONS &&
        (found.allow[0] || slice_is(rq->path, "*"))) {
        routes_answer_options(http, rq, &found);
    } else if (!found.allow[0]) {
        request_refuse(rq, 404, "there is nothing at \"%s\"",
                       problem_quote(rq->path).text);
    } else if (!found.route) {
        problem_set(&why, "this address answers to %s", found.allow);
        request_answer_problem_with(rq, 405, &why, found.allow, NULL);
    } else if (rq->is_upgrade && !found.route->is_stream) {
        request_refuse(rq, 400, "no WebSocket begins here");
    } else {
        principal = authorization_find(http, rq);
        if (principal)
            answer_principal(http, rq, &found, principal);
    }
}

/* What remains of a request that has ended: its line in the access log
 * (access_log.h), and its duration in the metric of its route (metrics.h).
 *
 * Of the query the line has the parameters that the route names and does not
 * mark as secret (route_table.h). All others are left out, with "..." in their
 * place: a ticket, a token or a secret that a client sends by mistake is none
 * of the route's. Bodies and other fields than User-Agent are never shown.
 *
 * The metric has a row for each row of route_table.h, for each document, and
 * "none" for all others: unknown paths and methods, and requests that were
 * refused before their path was looked up. */

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
    struct access_entry entry = end->entry;
    struct slice rest = entry.query;
    bool has_others = false;
    char query[QUERY_MAX];
    struct buf shown;

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
    entry.time_us = clock_now_us();
    entry.query = (struct slice){query, shown.size};
    access_log_add(log, service_number(end->service), &entry);
}

/* The metric */

void
http_name_routes(void)
{
    const char *path;
    size_t i;

    for (i = 0; i < route_table_size; i++)
        metrics_name_route(i, method_name(route_table[i].method),
                           route_table[i].path);
    for (; (path = documents_row(i - route_table_size, NULL)); i++)
        metrics_name_route(i, "GET", path);
    assert(i < METRIC_ROUTES_MAX);
    metrics_name_route(i, "other", "none");
}

void
http_on_end(const struct request_end *end, void *user)
{
    const struct http *http = user;
    struct slice query = end->entry.query;
    const char *path;
    size_t row = 0;

    if (access_log_is_on(http->access_log))
        add_line(http->access_log, end);
    /* Counts the request. Streams and long polls (wait=) do not count: they
     * last as long as the client wants. */
    while (query.size > 0)
        if (slice_starts(slice_take(&query, '&'), "wait="))
            return;
    if (end->entry.is_stream)
        return;
    if (end->route && end->route != &route_documents) {
        row = (size_t)((const struct route *)end->route - route_table);
    } else {
        while ((path = documents_row(row, NULL)) &&
               (!end->route || path != end->entry.pattern))
            row++;
        row += route_table_size; /* the last row is "none" */
    }
    metrics_observe_request(row, end->entry.status, end->entry.duration_us);
}

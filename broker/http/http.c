#include "broker/http/http.h"

#include <stdio.h>
#include <string.h>

#include "broker/http/route_table.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"

/* The host and port of a URL: the text between "://" and the next slash. */
static struct slice
authority_of(struct slice url)
{
    for (size_t i = 0; i + 2 < url.size; i++) {
        if (memcmp(url.data + i, "://", 3))
            continue;
        url.data += i + 3;
        url.size -= i + 3;
        for (i = 0; i < url.size && url.data[i] != '/'; i++)
            ;
        return (struct slice){url.data, i};
    }
    return (struct slice){NULL, 0};
}

/* The host of "host:port", with the brackets of an IPv6 address. */
static struct slice
host_of(struct slice authority)
{
    char end = authority.size && *authority.data == '[' ? ']' : ':';
    const char *at =
        authority.size ? memchr(authority.data, end, authority.size) : NULL;

    if (at)
        authority.size = (size_t)(at - authority.data) + (end == ']');
    return authority;
}

static void
add_host(struct http *http, struct slice host)
{
    bool is_bare_ipv6 = host.size && *host.data != '[' &&
                        memchr(host.data, ':', host.size) != NULL;

    snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]),
             is_bare_ipv6 ? "[%.*s]" : "%.*s", SLICE_ARG(host));
}

void
http_init(struct http *http, struct registry *registry, struct push *push,
          const char *listen_host)
{
    struct slice url = slice_of(registry_public_url(registry));

    http->registry = registry;
    http->push = push;
    http->any_host = registry_config(registry)->insecure_open;
    http->is_open = !http->any_host; /* broker_check has refused other cases */
    add_host(http, slice_of(listen_host));
    add_host(http, SLICE("localhost"));
    add_host(http, SLICE("127.0.0.1"));
    add_host(http, SLICE("::1"));
    add_host(http, host_of(authority_of(url)));
}

/* Ignores the port: an attacking page can only forge the name. */
static bool
is_ours(const struct http *http, struct slice authority)
{
    struct slice host = host_of(authority);

    for (unsigned i = 0; i < http->n_hosts; i++)
        if (host.size == strlen(http->hosts[i]) &&
            !strncasecmp(host.data, http->hosts[i], host.size))
            return true;
    return false;
}

/* Returns the sign that a proxy sent the request: a header about its client, or
 * HTTP/1.0. nginx with a bare proxy_pass sends HTTP/1.0, with our own name as
 * Host; no present client begins with it. NULL: no sign. A bare HAProxy looks
 * like a client; but it passes the Host on, so a remote client must send one of
 * ours. (The user of the socket is no sign: programs of the same service
 * accounts publish, too.) */
static const char *
sign_of_proxy(struct request *rq)
{
    static const char *const headers[] = {
        "forwarded",         "via",      "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-proto", "x-real-ip"};
    struct slice value;

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (request_header(rq, headers[i], &value))
            return headers[i];
    return request_is_1_0(rq) ? "HTTP/1.0" : NULL;
}

/*
 * A client that a proxy serves may be anywhere.
 *
 * Any page can make a browser on this machine send requests here. Such a
 * request has a Host that is not ours (a name that points here), or an Origin
 * that is not ours. Other clients send neither.
 */
static bool
may_come_in(const struct http *http, struct request *rq, struct problem *why)
{
    struct slice host = {NULL, 0}, origin;
    const char *sign = http->any_host ? NULL : sign_of_proxy(rq);

    if (sign) {
        problem_set(why,
                    "this broker is open to its own machine only, and this "
                    "request came by a proxy (%s): behind one, give tidingsd "
                    "--insecure-open and let the proxy say who may publish",
                    sign);
        return false;
    }
    request_header(rq, "host", &host);
    if (!http->any_host && !is_ours(http, host)) {
        problem_set(why,
                    "this broker is open to its own machine only, and is not "
                    "called \"%s\": give tidingsd --public-url if it should be",
                    problem_quote(host).text);
        return false;
    }
    if (!request_header(rq, "origin", &origin) ||
        slice_equal(authority_of(origin), host) ||
        slice_equal(
            authority_of(origin),
            authority_of(slice_of(registry_public_url(http->registry)))))
        return true;
    problem_set(why, "requests from pages of \"%s\" are not allowed",
                problem_quote(origin).text);
    return false;
}

void
http_on_request(struct request *rq, void *user)
{
    struct http *http = user;
    struct problem why = {""};
    struct route_found found;

    if (slice_is(request_path(rq), "/hub"))
        request_refuse_in_text(rq); /* W-032 */
    if (!atomic_load_explicit(&http->is_ready, memory_order_acquire)) {
        /* Even now the process answers. */
        if (slice_is(request_path(rq), "/healthz") &&
            (request_method(rq) == METHOD_GET ||
             request_method(rq) == METHOD_HEAD)) {
            handle_health_get(NULL, rq, NULL);
            return;
        }
        problem_set(&why, "the broker is starting");
        if (!request_answer_events_later(rq))
            request_answer_problem(rq, 503, &why, NULL, NULL);
        return;
    }
    if (!may_come_in(http, rq, &why)) {
        request_answer_problem(rq, 403, &why, NULL, NULL);
        return;
    }
    routes_find(request_method(rq), request_path(rq), &found);
    if (request_method(rq) == METHOD_OPTIONS &&
        (found.allow[0] || slice_is(request_path(rq), "*"))) {
        routes_answer_options(rq, &found);
    } else if (!found.allow[0]) {
        problem_set(&why, "there is nothing at \"%s\"",
                    problem_quote(request_path(rq)).text);
        request_answer_problem(rq, 404, &why, NULL, NULL);
    } else if (!found.route) {
        problem_set(&why, "this address answers to %s", found.allow);
        request_answer_problem(rq, 405, &why, found.allow, NULL);
    } else if (request_is_upgrade(rq) && !found.route->is_stream) {
        problem_set(&why, "no WebSocket begins here");
        request_answer_problem(rq, 400, &why, NULL, NULL);
    } else {
        routes_run(http, rq, &found);
    }
}

#include "broker/http/own_names.h"

#include <stdio.h>
#include <string.h>

#include "broker/http/cors.h"

/* The host and port of a URL: the text between "://" and the next slash. */
static struct slice
authority_of(struct slice url)
{
    const char *at = url.size ? memmem(url.data, url.size, "://", 3) : NULL;

    if (!at)
        return (struct slice){NULL, 0};
    slice_skip(&url, (size_t)(at - url.data) + 3);
    return slice_take(&url, '/');
}

struct slice
own_names_host_of(struct slice authority)
{
    char end = authority.size && *authority.data == '[' ? ']' : ':';
    const char *at =
        authority.size ? memchr(authority.data, end, authority.size) : NULL;

    if (at)
        authority.size = (size_t)(at - authority.data) + (end == ']');
    return authority;
}

struct slice
own_names_port_of(struct slice url)
{
    struct slice authority = authority_of(url);

    slice_skip(&authority, own_names_host_of(authority).size);
    return slice_take_char(&authority, ':') ? authority
                                            : (struct slice){NULL, 0};
}

/* Adds the names in a URL: its host, and its port or that of its scheme. */
static void
add_url(struct http *http, const char *url, char port[OWN_PORT_SIZE])
{
    struct slice host = own_names_host_of(authority_of(slice_of(url)));
    struct slice number = own_names_port_of(slice_of(url));

    if (!slice_is(host, "0.0.0.0") && !slice_is(host, "[::]"))
        snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]), "%.*s",
                 SLICE_ARG(host));
    if (!number.size)
        number =
            slice_starts(slice_of(url), "https:") ? SLICE("443") : SLICE("80");
    snprintf(port, OWN_PORT_SIZE, "%.*s", SLICE_ARG(number));
}

void
own_names_init(struct http *http, const char *url)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};

    http->has_tls = slice_starts(slice_of(url), "https:");
    for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
        snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]), "%s",
                 loopback[i]);
    add_url(http, url, http->ports[0]);
    add_url(http, registry_public_url(http->registry), http->ports[1]);
}

bool
own_names_have_host(const struct http *http, struct slice authority)
{
    struct slice host = own_names_host_of(authority);

    for (unsigned i = 0; i < http->n_hosts; i++)
        if (slice_is_word(host, http->hosts[i]))
            return true;
    return false;
}

/* True if a Host names a port of the broker, or none. */
static bool
has_port(const struct http *http, struct slice authority)
{
    slice_skip(&authority, own_names_host_of(authority).size);
    return !slice_take_char(&authority, ':') ||
           slice_is(authority, http->ports[0]) ||
           slice_is(authority, http->ports[1]);
}

bool
own_names_are_https(const struct http *http, struct request *rq)
{
    struct slice proto;

    return (request_listener(rq) == LISTENER_TCP && http->has_tls) ||
           (request_is_proxied(rq) &&
            request_header(rq, "x-forwarded-proto", &proto) &&
            slice_is_word(proto, "https"));
}

bool
own_names_have_origin(const struct http *http, struct request *rq,
                      struct slice origin)
{
    struct slice host = {NULL, 0};
    char own[sizeof(http->hosts[0]) + 32];

    if (origin_is_same(origin, slice_of(registry_public_url(http->registry))))
        return true;
    request_header(rq, "host", &host);
    snprintf(own, sizeof(own), "http%s://%.*s",
             own_names_are_https(http, rq) ? "s" : "", SLICE_ARG(host));
    return own_names_have_host(http, host) &&
           origin_is_same(origin, slice_of(own));
}

bool
own_names_may_be_used(const struct http *http, struct request *rq,
                      const struct principal *principal, struct problem *why)
{
    struct slice host = {NULL, 0};
    bool is_open = tokens_are_open(http->tokens);

    if (request_listener(rq) == LISTENER_CONTROL ||
        (!is_open &&
         (!principal || !principal->is_everyone ||
          request_listener(rq) != LISTENER_TCP || request_is_proxied(rq))))
        return true;
    request_header(rq, "host", &host);
    if (own_names_have_host(http, host) &&
        (!http_is_local(http) || request_listener(rq) != LISTENER_TCP ||
         has_port(http, host)))
        return true;
    problem_set(why, "%s \"%s\": give tidingsd --public-url if it should",
                is_open ? "this broker is open, and is not called"
                        : "without a token the broker does not answer to",
                problem_quote(host).text);
    return false;
}

#include "broker/http/origins.h"

#include "broker/net/response.h"

/* How long a browser may remember the answer to a preflight. */
#define PREFLIGHT_S "600"

/* The broker's own names */

/* True if both texts have the same scheme, host and port (RFC 6454 section 5);
 * a path behind them does not count. */
static bool
is_same_origin(struct slice a, struct slice b)
{
    return !websub_check_url(a, "", NULL) && !websub_check_url(b, "", NULL) &&
           !strcmp(websub_origin(a).text, websub_origin(b).text);
}

/* The host and port of a URL: the text between "://" and the next slash. */
static struct slice
authority_of(struct slice url)
{
    return slice_skip_past(&url, "://") ? slice_take(&url, '/')
                                        : (struct slice){NULL, 0};
}

struct slice
origins_host_of(struct slice authority)
{
    char end = authority.size && *authority.data == '[' ? ']' : ':';
    const char *at =
        authority.size ? memchr(authority.data, end, authority.size) : NULL;

    if (at)
        authority.size = (size_t)(at - authority.data) + (end == ']');
    return authority;
}

struct slice
origins_port_of(struct slice url)
{
    struct slice authority = authority_of(url);

    slice_skip(&authority, origins_host_of(authority).size);
    return slice_take_char(&authority, ':') ? authority
                                            : (struct slice){NULL, 0};
}

/* Adds the names in a URL: its host, and its port or that of its scheme. */
static void
add_url(struct http *http, const char *url, char port[OWN_PORT_SIZE])
{
    struct slice host = origins_host_of(authority_of(slice_of(url)));
    struct slice number = origins_port_of(slice_of(url));

    if (!slice_is(host, "0.0.0.0") && !slice_is(host, "[::]"))
        snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]), "%.*s",
                 SLICE_ARG(host));
    if (!number.size)
        number =
            slice_starts(slice_of(url), "https:") ? SLICE("443") : SLICE("80");
    snprintf(port, OWN_PORT_SIZE, "%.*s", SLICE_ARG(number));
}

void
origins_init(struct http *http, const char *url)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};

    /* broker_check has refused other cases */
    http->is_near = !http->registry->config->insecure_open;
    http->has_tls = slice_starts(slice_of(url), "https:");
    for (size_t i = 0; i < N_ELEMENTS(loopback); i++)
        snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]), "%s",
                 loopback[i]);
    add_url(http, url, http->ports[0]);
    add_url(http, http->registry->options.public_url, http->ports[1]);
}

/* True if "host" or "host:port" is a host of the broker. Ignores the port: an
 * attacking page can only forge the name. */
static bool
has_host(const struct http *http, struct slice authority)
{
    struct slice host = origins_host_of(authority);

    for (unsigned i = 0; i < http->n_hosts; i++)
        if (slice_is_word(host, http->hosts[i]))
            return true;
    return false;
}

bool
origins_are_https(const struct http *http, struct request *rq)
{
    struct slice proto;

    return (rq->listener == LISTENER_TCP && http->has_tls) ||
           (request_is_proxied(rq) &&
            request_header(rq, "x-forwarded-proto", &proto) &&
            slice_is_word(proto, "https"));
}

bool
origins_are_own(const struct http *http, struct request *rq,
                struct slice origin)
{
    struct slice host = {NULL, 0};
    char own[sizeof(http->hosts[0]) + 32];

    if (is_same_origin(origin, slice_of(http->registry->options.public_url)))
        return true;
    request_header(rq, "host", &host);
    snprintf(own, sizeof(own), "http%s://%.*s",
             origins_are_https(http, rq) ? "s" : "", SLICE_ARG(host));
    return has_host(http, host) && is_same_origin(origin, slice_of(own));
}

bool
origins_may_call(const struct http *http, struct request *rq,
                 const struct principal *principal, struct problem *why)
{
    struct slice host = {NULL, 0}, port;
    bool is_open = tokens_are_open(http->tokens), has_port;

    if (rq->listener == LISTENER_CONTROL ||
        (!is_open && (!principal || !principal->is_everyone ||
                      rq->listener != LISTENER_TCP || request_is_proxied(rq))))
        return true;
    request_header(rq, "host", &host);
    port = host;
    if (host.size > 0) /* nothing may be added to NULL, not even 0 */
        slice_skip(&port, origins_host_of(host).size);
    /* A port of the broker, or none. */
    has_port = !slice_take_char(&port, ':') || slice_is(port, http->ports[0]) ||
               slice_is(port, http->ports[1]);
    if (has_host(http, host) &&
        (!http_is_local(http) || rq->listener != LISTENER_TCP || has_port))
        return true;
    problem_set(why,
                "%s \"%s\": give tidingsd --public-url if it should, and let "
                "a proxy pass on Host (nginx: proxy_set_header Host $host)",
                is_open ? "this broker is open, and is not called"
                        : "without a token the broker does not answer to",
                problem_quote(host).text);
    return false;
}

/* Foreign pages */

static const struct origins *
latest(const struct origins *origins)
{
    const struct origins *successor =
        atomic_load_explicit(&origins->successor, memory_order_acquire);

    return successor ? successor : origins;
}

/* RFC 6454 section 6.2: a scheme, a host, perhaps a port; no path. */
static bool
is_origin(struct slice text)
{
    struct slice rest = text;

    if (websub_check_url(text, "", NULL))
        return false;
    (void)slice_take(&rest, ':');
    slice_skip(&rest, strlen("//"));
    (void)slice_take_until(&rest, "/?#");
    return !rest.size;
}

enum status
origins_read(struct slice text, struct origins *origins, struct problem *why)
{
    struct slice rest = text, one;

    memset(origins, 0, sizeof(*origins));
    if (text.size >= sizeof(origins->text))
        return problem(why, STATUS_INVALID, "is longer than %zu bytes",
                       sizeof(origins->text) - 1);
    while (rest.size) {
        one = slice_trimmed(slice_take(&rest, ','));
        if (slice_is(one, "*"))
            origins->has_any = true;
        else if (!is_origin(one))
            return problem(why, STATUS_INVALID,
                           "\"%s\" is no origin: https://host, or with a port "
                           "https://host:8443",
                           problem_quote(one).text);
    }
    memcpy(origins->text, text.data, text.size);
    return STATUS_OK;
}

enum origins_verdict
origins_judge(const struct origins *origins, struct slice origin)
{
    const struct origins *now = latest(origins);
    struct slice rest = slice_of(now->text);

    while (rest.size)
        if (is_same_origin(slice_trimmed(slice_take(&rest, ',')), origin))
            return CORS_ALLOWED;
    return now->has_any ? CORS_READER : CORS_FOREIGN;
}

void
origins_mark(struct request *rq, const struct origins *origins,
             struct slice origin)
{
    enum origins_verdict verdict = origins_judge(origins, origin);
    char lines[REQUEST_LINES_MAX];
    int n;

    if (!latest(origins)->text[0])
        return;
    n = snprintf(lines, sizeof(lines), "Vary: Origin\r\n");
    if (origin.size && verdict != CORS_FOREIGN &&
        origin.size < sizeof(lines) / 2)
        n += snprintf(lines + n, sizeof(lines) - (size_t)n,
                      "Access-Control-Allow-Origin: %.*s\r\n"
                      "Access-Control-Expose-Headers: Link, Retry-After, "
                      "Last-Event-ID, Location, ETag, RateLimit, "
                      "Idempotent-Replayed, X-Request-Id, Tidings-As-Of, "
                      "Tidings-Position, Tidings-After-Digest\r\n",
                      SLICE_ARG(verdict == CORS_ALLOWED ? origin : SLICE("*")));
    request_add_lines(rq, (struct slice){lines, (size_t)n});
}

void
origins_preflight(struct request *rq, struct response *r,
                  const struct origins *origins, const char *allow)
{
    struct slice origin, method;
    enum origins_verdict verdict;

    if (!request_header(rq, "origin", &origin) ||
        !request_header(rq, "access-control-request-method", &method))
        return;
    verdict = origins_judge(origins, origin);
    if (verdict == CORS_FOREIGN)
        return;
    response_header(r, "Access-Control-Allow-Methods", "%s",
                    verdict == CORS_ALLOWED ? allow : "GET, HEAD");
    response_header(
        r, "Access-Control-Allow-Headers",
        "%sAccept, Last-Event-ID, Range, If-Range, If-Match, "
        "If-None-Match, If-Modified-Since, If-Unmodified-Since",
        verdict == CORS_ALLOWED
            ? "Authorization, Content-Type, Idempotency-Key, traceparent, "
              "ce-specversion, ce-id, ce-source, ce-type, ce-subject, ce-time, "
            : "");
    response_header(r, "Access-Control-Max-Age", PREFLIGHT_S);
}

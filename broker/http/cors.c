#include "broker/http/cors.h"

#include <stdio.h>
#include <string.h>

#include "broker/net/response.h"
#include "proto/http/websub.h"

/* How long a browser may remember the answer to a preflight. */
#define PREFLIGHT_S "600"

static const struct origins *
latest(const struct origins *origins)
{
    const struct origins *successor =
        atomic_load_explicit(&origins->successor, memory_order_acquire);

    return successor ? successor : origins;
}

bool
origin_is_same(struct slice a, struct slice b)
{
    return !websub_check_url(a, "", NULL) && !websub_check_url(b, "", NULL) &&
           !strcmp(websub_origin(a).text, websub_origin(b).text);
}

static struct slice
next_origin(struct slice *rest)
{
    return slice_trimmed(slice_take(rest, ','));
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
        one = next_origin(&rest);
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

void
origins_replace(struct origins *origins, const struct origins *successor)
{
    atomic_store_explicit(&origins->successor, successor, memory_order_release);
}

enum cors_verdict
cors_judge(const struct origins *origins, struct slice origin)
{
    const struct origins *now = latest(origins);
    struct slice rest = slice_of(now->text);

    while (rest.size)
        if (origin_is_same(next_origin(&rest), origin))
            return CORS_ALLOWED;
    return now->has_any ? CORS_READER : CORS_FOREIGN;
}

void
cors_mark(struct request *rq, const struct origins *origins,
          struct slice origin)
{
    enum cors_verdict verdict = cors_judge(origins, origin);
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
                      "Idempotent-Replayed, X-Request-Id, Tidings-As-Of\r\n",
                      SLICE_ARG(verdict == CORS_ALLOWED ? origin : SLICE("*")));
    request_add_lines(rq, (struct slice){lines, (size_t)n});
}

void
cors_preflight(struct request *rq, struct response *r,
               const struct origins *origins, const char *allow)
{
    struct slice origin, method;
    enum cors_verdict verdict;

    if (!request_header(rq, "origin", &origin) ||
        !request_header(rq, "access-control-request-method", &method))
        return;
    verdict = cors_judge(origins, origin);
    if (verdict == CORS_FOREIGN)
        return;
    response_header(r, "Access-Control-Allow-Methods", "%s",
                    verdict == CORS_ALLOWED ? allow : "GET, HEAD");
    response_header(r, "Access-Control-Allow-Headers",
                    "%sAccept, Last-Event-ID, Range, If-Range, If-Match, "
                    "If-None-Match, If-Modified-Since, If-Unmodified-Since",
                    verdict == CORS_ALLOWED
                        ? "Authorization, Content-Type, Idempotency-Key, "
                        : "");
    response_header(r, "Access-Control-Max-Age", PREFLIGHT_S);
}

#include "broker/http/session.h"

#include "broker/access/tickets.h"
#include "broker/http/origins.h"

#define COOKIE_NAME_SIZE 32

bool
session_is_of_other_site(struct request *rq)
{
    struct slice site;

    return request_header(rq, "sec-fetch-site", &site) &&
           !slice_is(site, "same-origin") && !slice_is(site, "none");
}

bool
session_is_foreign(const struct http *http, struct request *rq)
{
    struct slice origin;

    return session_is_of_other_site(rq) ||
           (request_header(rq, "origin", &origin) &&
            !origins_are_own(http, rq, origin));
}

/* True if the cookie counts. */
static bool
is_own_request(const struct http *http, struct request *rq)
{
    bool only_reads = (rq->method == METHOD_GET || rq->method == METHOD_HEAD) &&
                      !rq->is_upgrade;
    struct slice origin;

    return !session_is_foreign(http, rq) &&
           (only_reads || request_header(rq, "origin", &origin));
}

/* True unless the browser is on this machine and speaks plain HTTP. */
static bool
is_secure(const struct http *http, struct request *rq)
{
    struct slice host = {NULL, 0};

    if (slice_starts(slice_of(http->registry->options.public_url), "https:") ||
        origins_are_https(http, rq))
        return true;
    request_header(rq, "host", &host);
    return !address_is_loopback_host(origins_host_of(host));
}

static void
write_name(const struct http *http, bool secure, char name[COOKIE_NAME_SIZE])
{
    struct slice port =
        origins_port_of(slice_of(http->registry->options.public_url));

    snprintf(name, COOKIE_NAME_SIZE, "%stidings%s%.*s", secure ? "__Host-" : "",
             port.size ? "-" : "", SLICE_ARG(port));
}

/* The value of our cookie (RFC 6265 section 4.2.1); false: there is none that
 * counts. */
static bool
find_cookie(const struct http *http, struct request *rq, struct slice *value)
{
    char name[COOKIE_NAME_SIZE];
    struct slice rest, one;

    if (!is_own_request(http, rq) || !request_header(rq, "cookie", &rest))
        return false;
    write_name(http, is_secure(http, rq), name);
    while (rest.size) {
        *value = slice_trimmed(slice_take(&rest, ';'));
        one = slice_take(value, '=');
        if (slice_is(one, name))
            return true;
    }
    return false;
}

struct principal *
session_find(struct http *http, struct request *rq)
{
    int64_t now_us = clock_now_us();
    struct authority *authority;
    struct principal *found;
    struct slice text;

    if (!find_cookie(http, rq, &text))
        return NULL;
    found = tickets_find(http->sessions, text, false, &authority);
    if (found && authority_is_over(authority, now_us)) {
        authority_unref(authority);
        principal_unref(found);
        return NULL;
    }
    if (found) { /* relaxed: principal.h */
        store_relaxed(&found->used_us, now_us);
        request_set_authority(rq, authority);
    }
    return found;
}

enum status
session_renew(struct http *http, struct request *rq,
              struct principal *principal, struct problem *why)
{
    struct slice text;

    if (!find_cookie(http, rq, &text))
        text = SLICE(""); /* which no session has */
    return tickets_renew(http->sessions, text, principal, request_client(rq),
                         why);
}

void
session_end(struct http *http, struct request *rq)
{
    struct slice text;

    if (find_cookie(http, rq, &text))
        principal_unref(tickets_find(http->sessions, text, true, NULL));
}

void
session_add_cookie(struct http *http, struct request *rq, struct response *r,
                   const char *text)
{
    bool secure = is_secure(http, rq);
    char name[COOKIE_NAME_SIZE];

    write_name(http, secure, name);
    response_header(
        r, "Set-Cookie", "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s", name,
        text ? text : "", secure ? "; Secure" : "", text ? "" : "; Max-Age=0");
}

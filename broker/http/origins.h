/*
 * origins.h - who may call: the names by which the broker is called, its hosts
 * and its own origin; and which pages of browsers may use it, by the fields
 * with which a browser lets a page of another origin read an answer (Fetch
 * standard, CORS protocol).
 *
 *     Origin: https://page.example
 *       the broker's own            comes in
 *       of --allow-origins          comes in, with a token as well
 *       another, and "*" is there   reads what everyone may read
 *       another                     403
 *
 * Tokens travel in fields that a page has to set itself. So the broker never
 * allows a browser's own credentials.
 */
#pragma once

#include <stdatomic.h>

#include "broker/http/http.h"
#include "broker/net/request.h"

/* The broker's own names */

/* Fills in is_near, has_tls and the names. The registry is there; `url` is that
 * of the listener. */
void origins_init(struct http *http, const char *url);

/* The host of "host:port", with the brackets of an IPv6 address. */
struct slice origins_host_of(struct slice authority);

/* The port that a URL names; empty: none. */
struct slice origins_port_of(struct slice url);

/* True if the client uses TLS, also by a trusted proxy. During on_request. */
bool origins_are_https(const struct http *http, struct request *rq);

/* True for an origin of the broker itself: that of the public URL, or the
 * scheme of the request and its Host, if that is a name of the broker. (Host
 * alone proves nothing: a page can give any name our address.) During
 * on_request. */
bool origins_are_own(const struct http *http, struct request *rq,
                     struct slice origin);

/* A page of any name that points here (DNS rebinding) has what everyone has. So
 * a request needs a name of the broker: each one to an open broker, else one of
 * everyone, unless a trusted proxy or a unix socket brings it. A broker that is
 * open to its machine knows its port, too: a forwarder of TCP has another one.
 * (`principal` NULL: not yet known.) False: it may not come in, and `why` says
 * why. During on_request. */
bool origins_may_call(const struct http *http, struct request *rq,
                      const struct principal *principal, struct problem *why);

/* Foreign pages */

/* --allow-origins, checked. */
struct origins {
    char text[2048]; /* with commas between; "": none */
    bool has_any;    /* "*" is one of them */

    /* A reload's, which must stay as long as these. Release, so that its text
     * is there: origins_judge. */
    _Atomic(const struct origins *) successor;
};

/* Reads "https://a.example, http://b.example:8080, *". STATUS_INVALID: one is
 * no origin: a scheme, a host and perhaps a port. */
MUST_CHECK enum status origins_read(struct slice text, struct origins *origins,
                                    struct problem *why);

enum origins_verdict {
    CORS_FOREIGN, /* it is none of the allowed ones */
    CORS_READER,  /* it may read without a token */
    CORS_ALLOWED
};

enum origins_verdict origins_judge(const struct origins *origins,
                                   struct slice origin);

/* Adds the fields for pages to the answer of this request. `origin` empty: it
 * has none. During on_request. */
void origins_mark(struct request *rq, const struct origins *origins,
                  struct slice origin);

/* Adds those of a preflight's answer to `r`. `allow`: the methods of the
 * path. */
void origins_preflight(struct request *rq, struct response *r,
                       const struct origins *origins, const char *allow);

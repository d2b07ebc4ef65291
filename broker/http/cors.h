/*
 * cors.h - which pages of browsers may use the broker: origins, and the fields
 * by which a browser lets a page of another origin read an answer (Fetch
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
#ifndef BROKER_HTTP_CORS_H
#define BROKER_HTTP_CORS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "broker/net/request.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* --allow-origins, checked. */
struct origins {
    char text[2048]; /* with commas between; "": none */
    bool has_any;    /* "*" is one of them */

    /* A reload's. Release, so that its text is there: origins_latest. */
    _Atomic(const struct origins *) successor;
};

/* Reads "https://a.example, http://b.example:8080, *". STATUS_INVALID: one is
 * no origin: a scheme, a host and perhaps a port. */
MUST_CHECK enum status origins_read(struct slice text, struct origins *origins,
                                    struct problem *why);

/* Replaces the origins; `successor` must stay as long as `origins`. Any
 * thread. */
void origins_replace(struct origins *origins, const struct origins *successor);

/* True if both texts have the same scheme, host and port (RFC 6454 section 5);
 * a path behind them does not count. */
bool origin_is_same(struct slice a, struct slice b);

enum cors_verdict {
    CORS_FOREIGN, /* it is none of the allowed ones */
    CORS_READER,  /* it may read without a token */
    CORS_ALLOWED
};

enum cors_verdict cors_judge(const struct origins *origins,
                             struct slice origin);

/* Adds the fields for pages to the answer of this request. `origin` empty: it
 * has none. During on_request. */
void cors_mark(struct request *rq, const struct origins *origins,
               struct slice origin);

/* Adds those of a preflight's answer to `r`. `allow`: the methods of the
 * path. */
struct response;
void cors_preflight(struct request *rq, struct response *r,
                    const struct origins *origins, const char *allow);

#endif

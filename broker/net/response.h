/*
 * response.h - an answer.
 *
 * Content-Length is always sent, except with the head of a long answer (see
 * request_accept_long); HEAD gets the headers alone.
 */
#ifndef BROKER_NET_RESPONSE_H
#define BROKER_NET_RESPONSE_H

#include <stdint.h>

#include "broker/net/body.h"
#include "broker/net/request.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Room for further header lines of one answer: the links of a topic (eight
 * foreign hubs of 512 bytes, three URLs of ours of 700), and others. */
#define RESPONSE_HEADERS_MAX 7680

struct response {
    unsigned status;
    const char *content_type; /* NULL: no body */
    struct slice text;        /* a body in memory; copied */
    struct body *body;        /* or this one, which the response takes over */
    bool is_long;             /* the head of an answer without a known end; in
                                 request_answer for HEAD only */
    size_t headers_size;
    char headers[RESPONSE_HEADERS_MAX]; /* "Name: value\r\n"... */
};

/* Only status and type; no body, no headers. */
void response_init(struct response *r, unsigned status,
                   const char *content_type);

/* Adds a header line; value must not contain control characters (such a header
 * is left out). */
void response_header(struct response *r, const char *name, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* The HTTP status that goes with a status of ours: 400 malformed, 404, 408
 * late, 409 running and conflict, 410, 413, 415, 422 invalid, 429 limited, 503
 * busy and stopped, 500 else. */
unsigned response_status_of(enum status status);

/* The reason phrase: "Not Found". */
const char *response_reason(unsigned status);

/* Answers with application/problem+json (RFC 9457): type "about:blank", title
 * (the reason phrase), status, detail (why->text), and entry and line where
 * known. 409 and 503 carry Retry-After: 1, 429 10. `allow` is what could have
 * been sent instead: 405 needs methods, 415 of a coding has codings
 * (Accept-Encoding, RFC 9110 section 15.5.16); else NULL. `members` is put in
 * front of the last brace as it is (",\"earliest\":\"...\""), or NULL. No cache
 * keeps it. After request_refuse_in_text it is a line of text/plain. */
void request_answer_problem(struct request *rq, unsigned status,
                            const struct problem *why, const char *allow,
                            const char *members);

/* The server is starting or stopping. An EventSource, which never asks again
 * after any other status than 200, gets an event stream that ends at once: so
 * it connects again after a second (HTML, section 9.2.3). false, and no answer:
 * it is none. */
bool request_answer_events_later(struct request *rq);

/* request_answer_problem with status and headers of the caller's. */
void response_answer_problem(struct request *rq, struct response *r,
                             const struct problem *why, const char *members);

#endif

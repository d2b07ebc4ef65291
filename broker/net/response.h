/*
 * response.h - an answer.
 *
 * Every answer has a Content-Length, except the head of a long answer (see
 * request_accept_long); HEAD gets only the headers.
 */
#pragma once

#include "broker/net/body.h"
#include "broker/net/request.h"

/* Room for more header lines of an answer: the links of a topic (eight foreign
 * hubs of 512 bytes, three URLs of ours of 700), and others. */
#define RESPONSE_HEADERS_MAX 7680

struct response {
    unsigned status;
    const char *content_type; /* NULL: no body */
    struct slice text;        /* a body in memory; copied */
    struct body *body;        /* or this one, which the response takes over */
    bool is_broken;           /* response_text had no text */
    bool is_long;             /* the head of an answer without a known end; in
                                 request_answer only for HEAD */
    size_t headers_size;
    char headers[RESPONSE_HEADERS_MAX]; /* "Name: value\r\n"... */
};

/* Sets status, type and Cache-Control (NULL: none); no body, no other
 * headers. */
void response_init(struct response *r, unsigned status,
                   const char *content_type, const char *caching);

/* Sets the body. A text that could not be made, for want of memory, is no
 * answer: request_answer then hangs up, and the client asks again. */
void response_text(struct response *r, const struct buf *text);

/* Adds a header line; omits it if the value has control characters. */
void response_header(struct response *r, const char *name, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* Makes it a page for people, which runs nothing and loads nothing but our
 * style sheet. Browsers keep its address from other sites that it links to. */
void response_page(struct response *r);

/* The HTTP status for one of our statuses: 400 malformed, 403
 * forbidden, 404, 408 late, 409
 * running and conflict, 410, 413, 415, 422 invalid, 429 limited, 503 busy and
 * stopped, 500 else. */
unsigned response_status_of(enum status status);

/* Answers with application/problem+json (RFC 9457): type "about:blank", title
 * (the reason phrase), status, detail (why->text), entry and line if known, and
 * request (request_id).
 * 409 and 503 have Retry-After: 1, 429 10. `allow` lists what the client may
 * send instead: methods for 405, codings for 415 of a coding (Accept-Encoding,
 * RFC 9110 section 15.5.16); else NULL. `members` is inserted unchanged before
 * the last brace (",\"earliest\":\"...\""), or NULL. No cache keeps the answer.
 * Where rq->is_text it is a line of text/plain; a client that
 * prefers pages gets one (server_options.write_problem). */
void request_answer_problem_with(struct request *rq, unsigned status,
                                 const struct problem *why, const char *allow,
                                 const char *members);

/* The same with nothing beside the problem. */
void request_answer_problem(struct request *rq, unsigned status,
                            const struct problem *why);

/* The same with this sentence as the detail. */
void request_refuse(struct request *rq, unsigned status, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

/* For a server that is starting or stopping. An EventSource, which never asks
 * again after another status than 200, gets an event stream that ends at once:
 * so it connects again after a second (HTML, section 9.2.3). Returns false
 * without an answer for other requests. */
bool request_answer_events_later(struct request *rq);

/* As request_answer_problem, with status and headers of the caller. */
void response_answer_problem(struct request *rq, struct response *r,
                             const struct problem *why, const char *members);

/*
 * fetch.h - one HTTP exchange, by libcurl on the handle's loop.
 *
 *     fetch_start --> on_body ... --> on_end        nothing after it
 *          +--------> fetch_free                    at any moment: nothing more
 *
 * All exchanges of a handle share its kept connections. Only http and https,
 * for redirects too. An exchange waits for a place at its host (host_places.h)
 * before it sends anything. One that would wait for longer than a minute,
 * because an earlier answer asked for that, gets that answer's status and the
 * rest of its Retry-After, without a request.
 *
 * The codings gzip and deflate are undone, whether they were asked for or not
 * another one, or one that breaks off, is a failure of an answer of
 * 2xx. A request may ask for the coded bytes.
 *
 * If a server refuses a token with 401 and servers.h has another one by now,
 * the exchange begins once more with that: the caller sees the second answer
 * alone.
 */
#pragma once

#include "client/lib/client.h"
#include "client/lib/host_places.h"

/* Redirects that documents may take. */
#define FETCH_REDIRECTS 10

struct fetch;

struct fetch_request {
    const char *url;            /* characters that no URL has are encoded */
    const char *const *headers; /* "Name: value" each, NULL at the end */
    const struct slice *body;   /* a POST with this body; NULL: a GET */
    size_t max_bytes;           /* of the answer's body; 0: no limit */
    const char *method;         /* another one, a literal; NULL: as the body
                                   says */
    unsigned redirects;         /* how many to follow; 0: none. With the same
                                   method and body for 307 and 308 alone */
    bool takes_gzip;            /* asks for gzip */
    bool keeps_coding;          /* the body stays coded */
    bool skips_refusals;        /* reads no body but one of 2xx to its end */
    bool is_own; /* the program has named this URL, no document has: its address
                    is not judged (address_policy.h) before it redirects */
    unsigned silence_s;        /* silence that ends the exchange; 0: 120 */
    enum host_place_kind kind; /* of its place at the host; see below */
};

/* Seconds; their milliseconds fit into an unsigned. */
#define RETRY_AFTER_MOST 1000000

/* The answer: all but `body` is complete when on_body gets the first byte.
 * Terminated; "" if the answer has none. */
struct fetch_answer {
    unsigned status;         /* 0: there is none */
    bool is_sent;            /* some of the request left: it may have arrived */
    unsigned retry_after_s;  /* Retry-After; 0: none */
    uint64_t length;         /* of the body: Content-Length; UINT64_MAX: unknown
                             */
    const char *length_text; /* Content-Length as it came */
    const char *url;         /* of the last request, after redirects; lent */
    const char *type;        /* Content-Type */
    const char *etag;
    const char *last_modified;
    const char *date;
    const char *content_range; /* of a 206 */
    const char *location;
    const char *coding;       /* Content-Encoding */
    const char *link;         /* all Link lines, joined by ", " */
    const char *replayed;     /* Idempotent-Replayed */
    const char *after_digest; /* Tidings-After-Digest */
    const char *position;     /* Tidings-Position: the answer is of it */
    bool is_replayed;         /* it is "true": an earlier post was kept */
    const char *note;         /* of a 401: servers_token_note; or NULL */
    struct buf body;          /* empty if on_body took it */
};

/* Some of the body of an answer of 2xx; false ends the exchange: on_end is
 * called with STATUS_STOPPED. The beginning of any other body is in
 * answer->body at the end. */
typedef bool fetch_body_fn(const struct fetch_answer *answer,
                           struct slice bytes, void *user);

/* The end. why->rc: STATUS_OK: there is an answer, of any HTTP status.
 * STATUS_UNREACHABLE, STATUS_MALFORMED (longer than max_bytes, a redirect to
 * nowhere, wrong gzip), STATUS_MEMORY, STATUS_STOPPED (on_body): no whole
 * answer. Afterwards the exchange frees itself and all that `answer` lends, the
 * body too unless the callee takes it (and calls buf_init on it). */
typedef void fetch_end_fn(struct fetch_answer *answer,
                          const struct problem *why, void *user);

/* Begins an exchange. Copies what `request` points at, but not the body's
 * bytes, which must stay until the end. `on_body` NULL: collects the body
 * in answer->body. Nothing is called before this returns. NULL: no memory. */
struct fetch *fetch_start(struct td_client *client,
                          const struct fetch_request *request,
                          fetch_body_fn *on_body, fetch_end_fn *on_end,
                          void *user);

/* Ends it: nothing more is called. NULL is allowed; not after on_end. */
void fetch_free(struct fetch *fetch);

/* Holds back bytes, and lets them come again. Also from on_body: the bytes
 * that it was given count as taken. */
void fetch_hold(struct fetch *fetch, bool is_held);

/* Translates an HTTP status other than 200: STATUS_REFUSED, STATUS_GONE (410)
 * or STATUS_UNREACHABLE (408, 429, 5xx: later perhaps). */
enum status fetch_meaning(unsigned status);

/* The same; sets `why` to "STATUS: entry N, line N: DETAIL" as far as the
 * answer, application/problem+json, has them. */
enum status fetch_refused(struct problem *why,
                          const struct fetch_answer *answer);

/* Blocking, for calls of the public interface */

/* Runs the loop until there is an answer. The caller gives its body to buf_fini
 * in any case. A failure sets the client's problem. The answer has no texts but
 * its body. STATUS_STOPPED: by td_stop, or, if the answer has a status, by
 * `on_body`, which may be NULL. */
enum status fetch_run(struct td_client *client,
                      const struct fetch_request *request,
                      fetch_body_fn *on_body, void *user,
                      struct fetch_answer *answer);

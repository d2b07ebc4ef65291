/*
 * fetch.h - one HTTP exchange with the broker.
 *
 * Redirects are not followed: the answer of a post must come from whom it was
 * given to. Proxies named in the environment are not used, here and for the
 * WebSocket alike. All of it ends early when td_stop is called.
 */
#ifndef CLIENT_LIB_FETCH_H
#define CLIENT_LIB_FETCH_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "proto/buf.h"
#include "proto/slice.h"

struct fetcher;

/* Once per process, before all else here. */
void fetch_set_up(void);

struct fetcher *fetcher_new(void); /* NULL: no memory */
void fetcher_free(struct fetcher *fetcher);

struct fetch_request {
    const char *url;
    const char *const *headers; /* "Name: value" each, NULL at the end */
    const struct slice *body;   /* a POST with this body; NULL: a GET */
    size_t max_bytes;           /* of the answer's body */
};

struct fetch_answer {
    unsigned status;
    bool is_sent;           /* some of the request left: it may have arrived */
    unsigned retry_after_s; /* the broker asks to come again then; 0: not */
    struct buf body;        /* the caller's: buf_fini, whatever was returned */
};

/* TD_OK: there is an answer, whatever its status. TD_UNREACHABLE, TD_STOPPED,
 * TD_MEMORY, TD_BROKEN (longer than max_bytes): there is none. */
enum td_status fetch_run(struct td_client *client,
                         const struct fetch_request *request,
                         struct fetch_answer *answer);

/* What a status other than 200 means: TD_REFUSED, TD_GONE (410) or
 * TD_UNREACHABLE (408, 429, 5xx: later perhaps). */
enum td_status fetch_meaning(unsigned status);

/* The same, and the problem is "STATUS: entry N, line N: DETAIL" as far as the
 * answer, application/problem+json, told them. */
enum td_status fetch_refused(struct td_client *client,
                             const struct fetch_answer *answer);

#endif

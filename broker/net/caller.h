/*
 * caller.h - calls out: HTTP requests to whom we do not trust.
 *
 * A caller is one thread with a loop (libuv), on which thousands of calls are
 * under way at once over kept-alive connections (libcurl, several multi handles
 * by host: with one alone the cost of a call grows with their number). The user
 * lives on that thread, too: on_start, on_wake, timers and jobs run on it, and
 * all functions here are called on it unless they say "any thread".
 *
 * What a call may cost is limited: a deadline over all of it (a trickling
 * answer cannot outlive it, W-057), the bytes of the answer that are read, the
 * connections in all and per host. The address that was judged (address.h) is
 * the one that is connected to (W-160). Names are resolved without blocking the
 * thread. No redirect is followed unless asked for, nothing of ours
 * (credentials, proxies, netrc, cookies) is sent, HTTP and HTTPS only (W-162);
 * certificates are verified.
 *
 *     caller_start --> [waits for its turn] --> prepare --> CALL_READY --> done
 *                                                      \--> CALL_LATER ...
 * caller_go
 *                                                      \--> CALL_NOT --> done
 * not called
 *
 * Turns: at most `connections` calls at once, at most `host_connections` to one
 * host and port; and calls marked suspect (the last one to the same callback
 * failed) are never more than half of `connections`, so that however many
 * callbacks hang, the others have room (W-092). Hosts take turns; within a host
 * it is first come, first served. A waiting call costs no more than its struct:
 * the body is given by `prepare`, when its turn has come.
 */
#ifndef BROKER_NET_CALLER_H
#define BROKER_NET_CALLER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/list.h"
#include "broker/net/address.h"
#include "broker/net/server.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct caller;

struct caller_options {
    const char *name;               /* of the thread, at most 15 characters */
    const struct networks *allowed; /* lent as long as the caller lives */
    unsigned connections;
    unsigned host_connections;

    /* On the caller's thread, before and after everything else. May be NULL. */
    void (*on_begin)(struct caller *caller, void *user);
    void (*on_end)(struct caller *caller, void *user);

    /* After caller_wake; and at the end of each turn of the loop, when all that
     * has happened in it was told. May be NULL. */
    void (*on_wake)(struct caller *caller, void *user);
    void (*on_turn)(struct caller *caller, void *user);
    void *user;
};

/* Starts the thread. */
MUST_CHECK enum status caller_open(struct caller **caller,
                                   const struct caller_options *options,
                                   struct problem *why);

/* Makes on_wake run soon. Any thread; calls are merged, none is lost. */
void caller_wake(struct caller *caller);

/* Runs task->run on the thread. Any thread; in order per caller of it. What was
 * posted before caller_stop still runs. */
void caller_post(struct caller *caller, struct task *task);

/* Ends the thread: runs what was posted, then on_end; calls under way are cut
 * and not `done`; jobs are waited for. The thread that closes. Harmless twice;
 * then only caller_close is left. */
void caller_stop(struct caller *caller);
void caller_close(struct caller *caller); /* caller_stop, frees. NULL allowed */

/* Calls */

enum call_turn { CALL_READY, CALL_LATER, CALL_NOT };

/* Why a call came to no answer, for metrics and for whoever asks. */
enum call_failure {
    CALL_ANSWERED, /* there is a status */
    CALL_REFUSED,  /* an address that may not be called, or no URL to call */
    CALL_UNRESOLVED,
    CALL_UNCONNECTED, /* refused, unreachable */
    CALL_TLS,
    CALL_TIMEOUT,
    CALL_BROKEN, /* reset, malformed answer, anything else */
    CALL_MEMORY
};

/* Lives inside its owner's struct; the caller's from caller_start to `done`. */
struct call {
    /* Set before caller_start. */
    enum call_method { CALL_GET, CALL_HEAD, CALL_POST } method;

    const char *url;    /* lent until done */
    int64_t timeout_us; /* from its turn on */
    size_t max_answer;  /* bytes of the answer's body that are kept; when there
                           are more, reading ends: is_cut */
    unsigned max_redirects;
    bool is_suspect;
    enum call_turn (*prepare)(struct call *call); /* may set headers and body,
                                                     lent until done; NULL: all
                                                     is there */
    void (*done)(struct call *call); /* may start calls, also this one again */

    const char *const *headers; /* "Name: value", NULL at the end; or NULL */
    struct slice body;          /* CALL_POST */

    /* The outcome. Lent until `done` returns. */
    enum call_failure failure;
    unsigned status;        /* if CALL_ANSWERED */
    int64_t retry_after_us; /* Retry-After (seconds or HTTP-date), from now; 0:
                               none */
    struct slice answer;    /* of the body, at most max_answer bytes */
    bool is_cut;
    struct slice content_type;        /* of the answer; or empty */
    struct slice etag, last_modified; /* likewise, as they stand */
    struct slice links;               /* all Link headers, joined by commas */
    const char *final_url;            /* after redirects */
    char why[160];                    /* a sentence, terminated: "the connection
                                         was refused" */
    int64_t took_us;

    /* The caller's own. */
    struct list node;
    void *host;
    void *handle;
    unsigned char state;
};

/* Queues a call. Always comes to `done` (unless it is cancelled, or prepare
 * says CALL_NOT), never before caller_start has returned. */
void caller_start(struct caller *caller, struct call *call);

/* After CALL_LATER: headers and body are there (ready), or it is not to be made
 * (then `done` is not called). Its turn was kept. */
void caller_go(struct caller *caller, struct call *call, bool ready);

/* Gives up a call that is queued or under way: `done` is not called, the
 * connection is closed. */
void caller_cancel(struct caller *caller, struct call *call);

/* Timers */

/* Lives inside its owner's struct; all zero before its first use. */
struct alarm {
    struct list node; /* the caller's own, like what follows */
    int64_t at_us;
    uint64_t place;
    void (*ring)(struct alarm *alarm);
};

/* Rings once at `at_us` (steady clock) or soon after; set again, only the last
 * one counts. Tens of thousands may be set at once. */
void caller_set_alarm(struct caller *caller, struct alarm *alarm,
                      int64_t at_us);
void caller_clear_alarm(struct caller *caller, struct alarm *alarm);

/* A thing that may block: job->work on the worker pool, then job->done here
 * (server.h). Always comes to `done`. */
void caller_work(struct caller *caller, struct job *job);

/* How many calls are under way, and how many wait. */
void caller_count(const struct caller *caller, unsigned *under_way,
                  unsigned *waiting);

#endif

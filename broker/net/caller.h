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
 * the one that is connected to (W-160); a connection that was kept is judged
 * again for each call that it serves. Names are resolved without blocking the
 * thread. No redirect is followed unless asked for, nothing of ours
 * (credentials, proxies, netrc, cookies) is sent, HTTP and HTTPS only (W-162);
 * certificates are verified.
 *
 *     caller_start --> waits for its turn --> prepare: CALL_READY --> done
 *                                                      CALL_LATER --> caller_go
 *                                                      CALL_NOT, no `done`
 *
 * A long answer is handed over in pieces (call->take), no faster than they are
 * taken: who writes them to a disk says CALL_LATER, writes in a job, and says
 * caller_go; until then nothing more is read from the connection.
 *
 *     ... bytes --> take: CALL_READY --> bytes --> ... --> done
 *                         CALL_LATER --> caller_go --> bytes
 *                         CALL_NOT, no `done`
 *
 * Turns: at most `connections` calls at once, at most `host_connections` to one
 * host and port, however they are spelled; and calls marked suspect (the last
 * one to the same callback failed) are never more than half of either, calls
 * marked unproven (somebody has named a URL, and nobody has confirmed it) never
 * more than a quarter (or one, where the limit is less), so that however many
 * callbacks hang, and however many are named that do, the others have room,
 * also those at the same host (W-092). Hosts take turns; within a host it is
 * first come, first served, among those of a kind. A suspect and an unproven
 * call get a new connection: each is one request at most. A waiting call costs
 * no more than its struct: the body is given by `prepare`, when its turn has
 * come.
 *
 * Descriptors: caller_files. Certificates are trusted that the authorities in
 * the system's file vouch for (the one libcurl was built with), or those in
 * the file that the environment names in SSL_CERT_FILE.
 */
#ifndef BROKER_NET_CALLER_H
#define BROKER_NET_CALLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/net/server.h"
#include "proto/address.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct caller;

/* Names and values that a call may send. */
#define CALL_HEADERS_MAX 24

/* Bytes of an answer's headers, those of redirects and interim answers
 * included; with more the call is CALL_BROKEN. */
#define CALL_HEAD_MAX ((size_t)32 * 1024)

/* Bytes of one piece of an answer. */
#define CALL_PIECE_MAX ((size_t)256 * 1024)

/* A Retry-After is taken for no more than this: a day. */
#define CALL_RETRY_AFTER_MAX_US ((int64_t)86400 * 1000000)

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

/* How many descriptors a caller has open at most, kept connections included,
 * while names resolve quickly: each name that is being looked up takes up to
 * four instead of one. */
unsigned caller_files(unsigned connections, unsigned host_connections);

/* Starts the thread. Fails where libcurl would resolve names on it. */
MUST_CHECK enum status caller_open(struct caller **caller,
                                   const struct caller_options *options,
                                   struct problem *why);

/* Makes on_wake run soon. Any thread; calls are merged, none is lost. */
void caller_wake(struct caller *caller);

/* Runs task->run on the thread. Any thread; in order per caller of it. What was
 * posted before caller_stop still runs; nobody may post once that has begun,
 * but the tasks and jobs themselves. */
void caller_post(struct caller *caller, struct task *task);

/* Ends the thread: cuts all calls (none of them comes to `done`, nor one that
 * is started from now on; no alarm rings), runs what was posted, waits for
 * jobs, which come to their `done`, then runs on_end. The thread that closes.
 * Harmless twice; then only caller_close is left. */
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
    CALL_MEMORY  /* no memory or no descriptor left: not the other side's fault
                  */
};

/* Lives inside its owner's struct, all zero before its first use; the caller's
 * from caller_start to `done`. */
struct call {
    /* Set before caller_start. */
    enum call_method { CALL_GET, CALL_HEAD, CALL_POST } method;

    const char *url; /* lent until done; sent as it is but for a fragment. With
                        user info, blanks or control characters: refused */
    int64_t timeout_us; /* from its turn on, or, after CALL_LATER, from
                           caller_go: what the user takes is not the other
                           side's fault */
    size_t max_answer;  /* bytes of the answer's body that are kept; when there
                           are more, reading ends: is_cut */
    unsigned max_redirects;
    int64_t stall_us; /* no byte of the answer for so long: CALL_TIMEOUT. What
                         the user takes does not count. 0: no such limit */
    const struct networks *also; /* may be called beside `allowed` of the
                                    caller's options; lent until done; NULL:
                                    none */
    bool is_suspect;
    bool is_unproven; /* counts, and is_suspect does not */
    enum call_turn (*prepare)(struct call *call); /* may set headers and body,
                                                     lent until done; NULL: all
                                                     is there */
    void (*done)(struct call *call); /* may start calls, also this one again */

    /* Not NULL: the body of an answer 200 is not kept, but handed over: all of
     * it but an empty one, before `done`. `piece` has at most CALL_PIECE_MAX
     * bytes; what the user does not take out of it, by exchanging it for a
     * buffer of his own, is gone when this returns. CALL_LATER: nothing is read
     * before caller_go, and `done` does not come. An answer that fails later
     * on, or is_cut, may not have been handed over as far as it came. */
    enum call_turn (*take)(struct call *call, struct buf *piece);
    uint64_t max_taken; /* bytes in all; when there are more: is_cut */

    const char *const *headers; /* "Name: value", NULL at the end; or NULL. One
                                   with a control character: CALL_REFUSED
                                   (W-163) */
    struct slice body;          /* CALL_POST; give its Content-Type */

    /* The outcome. Lent until `done` returns. */
    enum call_failure failure;
    unsigned status;        /* if CALL_ANSWERED; else 0 */
    int64_t retry_after_us; /* Retry-After (seconds or HTTP-date), from now; 0:
                               none, or already past */
    struct slice answer;    /* of the body, at most max_answer bytes; empty
                               if it was handed over */
    bool is_cut;            /* there was more; the connection was closed */
    struct slice content_type;        /* of the answer; or empty */
    struct slice etag, last_modified; /* likewise, as they stand */
    struct slice links;               /* all Link headers, joined by commas */
    const char *final_url;            /* after redirects; NULL if not called */
    char why[160];                    /* a sentence, terminated: "the connection
                                         was refused" */
    int64_t took_us;                  /* of timeout_us */

    /* The caller's own. */
    struct list node;
    void *host;
    void *handle;
    int64_t began_us;
    unsigned char state;
    unsigned char kind;
};

/* Queues a call. Always comes to `done` (unless it is cancelled, or prepare
 * says CALL_NOT), never before caller_start has returned. */
void caller_start(struct caller *caller, struct call *call);

/* After CALL_LATER: headers and body are there, or what was handed over is
 * taken (ready); or it is not to be made, or gone on with (then `done` is not
 * called). Its turn was kept. */
void caller_go(struct caller *caller, struct call *call, bool ready);

/* Gives up a call that is queued or under way, also in its own `prepare` and
 * `take`: `done` is not called, the connection is closed. Harmless if it is
 * neither. */
void caller_cancel(struct caller *caller, struct call *call);

/* Timers */

/* Lives inside its owner's struct; all zero before its first use. */
struct alarm {
    void (*ring)(struct alarm *alarm);

    /* The caller's own. */
    int64_t at_us;
    struct alarm *child, *next, *prev;
    bool is_set;
};

/* Rings once at `at_us` (steady clock) or soon after, never before this has
 * returned; set again, only the last one counts. Tens of thousands may be set
 * at once; needs no memory. */
void caller_set_alarm(struct caller *caller, struct alarm *alarm,
                      int64_t at_us);
void caller_clear_alarm(struct caller *caller, struct alarm *alarm);

/* Jobs */

/* A thing that may block: job->work on the worker pool, then job->done here
 * (server.h). Always comes to `done`. */
void caller_work(struct caller *caller, struct job *job);

/* How many calls have had their turn and are not done, and how many wait. */
void caller_count(const struct caller *caller, unsigned *under_way,
                  unsigned *waiting);

#endif

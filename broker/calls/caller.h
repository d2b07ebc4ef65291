/*
 * caller.h - calls out: HTTP requests to servers that we do not trust.
 *
 * A caller is one thread with a loop (libuv), on which thousands of calls are
 * under way at once over kept-alive connections. It speaks HTTP/1.1 itself, and
 * reads answers strictly (proto/http/response_head.h); OpenSSL does TLS, and
 * broker/base/lookup.h resolves names. The user lives on that thread, too:
 * on_begin, on_wake, alarms and jobs run on it, and all functions here are
 * called on it unless they say "any thread".
 *
 * The cost of a call is limited: by a deadline over all of it (a trickling
 * answer cannot outlive it, W-057), by the bytes that are read of the answer,
 * by the connections in all and per host. The caller connects to the very
 * address that it has judged (network_address.h, W-160), and judges a kept
 * connection again for each call. It resolves names without blocking the
 * thread. It follows no redirect unless asked to, sends nothing of ours
 * (credentials, proxies, netrc, cookies) but the headers of the call, of which
 * "Authorization" goes to no other server along a redirect. It speaks HTTP and
 * HTTPS only (W-162), and verifies certificates.
 *
 *     caller_start --> waits for its turn --> prepare: CALL_READY --> done
 *                                                      CALL_LATER --> caller_go
 *                                                      CALL_NOT, no `done`
 *
 * A long answer is handed over in pieces (call->take), no faster than the user
 * takes them: to write one to a disk the user returns CALL_LATER, writes in a
 * job, and calls caller_go. Until then the caller reads nothing more from the
 * connection.
 *
 *     ... bytes --> take: CALL_READY --> bytes --> ... --> done
 *                         CALL_LATER --> caller_go --> bytes
 *                         CALL_NOT, no `done`
 *
 * Turns: at most `connections` calls run at once, at most `host_connections` of
 * an owner to one host and port, in whatever spelling, and an eighth more of
 * all owners. Owners take turns, and the hosts of an owner; the calls of a kind
 * of an owner to one host are served in order. One owner never has more than
 * seven eighths of the connections, and less when others have many, so that the
 * next owner always finds room, also at the same host. Its calls marked suspect
 * (those to the same callback have failed or hung lately: call_history.h) never
 * have more than half of either limit, and those marked unproven (to a URL that
 * a client has named, and the callback has not confirmed) never more than a
 * quarter (or one, if the limit is less). So however many callbacks hang, named
 * or confirmed, the others have room (W-092). A suspect and an unproven call
 * get a new connection, so each is one request at most; so do others that ask
 * for it. A waiting call costs only its struct: `prepare` gives the body when
 * its turn has come.
 *
 * A caller has at most 6 descriptors open for each of `connections`, kept
 * connections included, and some for the loop.
 *
 * The caller trusts the authorities in the system's file (OpenSSL's default),
 * or in the file that the environment variable SSL_CERT_FILE names, and those
 * of --ca-file (broker/base/authorities.h). It speaks TLS 1.2 and later. By TLS
 * an answer whose end only the end of the connection shows needs close_notify:
 * else it has ended early.
 */
#pragma once

#include "base/loop.h"
#include "proto/buf.h"
#include "proto/http/network_address.h"

struct caller;

/* Names and values that a call may send. */
#define CALL_HEADERS_MAX 24

/* Bytes of an answer's headers, those of redirects and interim answers
 * included; with more the call is CALL_BROKEN. */
#define CALL_HEAD_MAX ((size_t)32 * 1024)

/* Bytes of one piece of an answer. */
#define CALL_PIECE_MAX ((size_t)256 * 1024)

/* A longer Retry-After counts as this: a day. */
#define CALL_RETRY_AFTER_MAX_US ((int64_t)86400 * 1000000)

struct caller_options {
    const char *name;               /* of the thread, at most 15 characters */
    const struct networks *allowed; /* lent as long as the caller lives */
    const struct sockaddr_un *unix_socket; /* not NULL: all calls go there,
                                              whatever their URL; lent
                                              likewise */
    bool calls_anywhere; /* does not look at `allowed`: the URLs are of the
                            operator */
    unsigned connections;
    unsigned host_connections;

    /* On the caller's thread, before and after everything else. May be NULL. */
    void (*on_begin)(struct caller *caller, void *user);
    void (*on_end)(struct caller *caller, void *user);

    /* After caller_wake, and at the end of each turn of the loop, when its
     * results were reported. May be NULL. */
    void (*on_wake)(struct caller *caller, void *user);
    void (*on_turn)(struct caller *caller, void *user);

    /* Before each call. False: the calls wait, until a later turn of the loop.
     * May be NULL. */
    bool (*may_call)(void *user);
    void *user;
};

/* Starts the thread. */
MUST_CHECK enum status caller_open(struct caller **caller,
                                   const struct caller_options *options,
                                   struct problem *why);

/* Makes on_wake run soon. Any thread; calls are merged, none is lost. */
void caller_wake(struct caller *caller);

/* Runs task->run on the thread. Any thread; in order per posting thread. Tasks
 * that were posted before caller_stop still run; after it only tasks and jobs
 * themselves may post. */
void caller_post(struct caller *caller, struct task *task);

/* Ends the thread: cuts all calls (none calls `done`, nor one that is started
 * from now on; no alarm rings), runs posted tasks, waits for jobs, which call
 * their `done`, then runs on_end. The thread that closes. A second call does
 * nothing; then only caller_close is left. */
void caller_stop(struct caller *caller);
void caller_close(struct caller *caller); /* calls caller_stop, and frees. NULL
                                             allowed */

/* Calls */

enum call_turn { CALL_READY, CALL_LATER, CALL_NOT };

/* Why a call has no answer, for metrics and for users. */
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

enum call_method { CALL_GET, CALL_HEAD, CALL_POST, CALL_DELETE, CALL_PUT };

/* The caller's own part of a call: caller_state.h. */
struct call_own {
    struct list node;
    struct place *lane;
    struct call_connection *handle;
    char *redirected;   /* the URL of the last redirect; NULL: none */
    struct place *host; /* of that */
    unsigned n_redirects;
    int64_t began_us;
    unsigned char state;
    unsigned char kind;
};

/* A member of its owner's struct, all zero before its first use; the caller's
 * from caller_start to `done`. */
struct call {
    /* Set before caller_start. */
    enum call_method method;
    const char *url; /* lent until done; sent unchanged but for a fragment. With
                        user info, blanks or control characters: refused */
    int64_t timeout_us; /* from its turn on, or, after CALL_LATER, from
                           caller_go: the user's time does not count */
    size_t max_answer;  /* bytes kept of the answer's body; if there are more,
                           reading ends: is_cut */
    unsigned max_redirects;
    int64_t stall_us; /* no byte of a CALL_PUT sent, and none of the answer, for
                         so long: CALL_TIMEOUT. The user's time does not count.
                         0: no such limit */
    const struct networks *also; /* may be called beside `allowed` of the
                                    caller's options; lent until done; NULL:
                                    none */
    bool undoes_coding; /* undoes gzip and deflate of an answer 200; any other
                           Content-Encoding: CALL_BROKEN. Asks for none, unless
                           a header does (Accept-Encoding) */
    const struct client *owner; /* on whose behalf; lent until done. NULL: the
                                   broker, which has no limits of one owner */
    bool is_suspect;
    bool is_unproven; /* counts, and is_suspect does not */
    bool
        is_once; /* gets a new connection, as the suspect and the unproven do */
    enum call_turn (*prepare)(struct call *call); /* may set headers and body,
                                                     lent until done; NULL: both
                                                     are set */
    void (*done)(struct call *call); /* may start calls, also this one again */

    /* Not NULL: the body of an answer 200 is not kept, but handed over before
     * `done`, in pieces; an empty one is not. `piece` has at most
     * CALL_PIECE_MAX bytes. To keep them the user exchanges `piece` for another
     * buffer; else they are gone when this returns. CALL_LATER: the caller
     * reads nothing, and does not call `done`, before caller_go. If an answer
     * fails later, or is_cut, the last bytes that came may not have been handed
     * over. */
    enum call_turn (*take)(struct call *call, struct buf *piece);
    uint64_t max_taken; /* bytes in all; if there are more: is_cut */

    const char *const *headers; /* "Name: value", NULL at the end; or NULL. One
                                   with a control character: CALL_REFUSED
                                   (W-163) */
    struct slice body;          /* CALL_POST; give its Content-Type. CALL_PUT:
                                   without data, bytes of body_fd */
    int body_fd;                /* read on the caller's thread */
    uint64_t body_at;           /* where they begin */

    /* The outcome. Lent until `done` returns. */
    enum call_failure failure;
    unsigned status;        /* if CALL_ANSWERED; else 0 */
    int64_t retry_after_us; /* Retry-After (seconds or HTTP-date), from now; 0:
                               none, or in the past */
    struct slice answer;    /* of the body, at most max_answer bytes; empty
                               if it was handed over */
    bool is_cut;            /* there was more; the connection was closed */
    bool is_coded;          /* undoes_coding has undone one */
    struct slice content_type;        /* of the answer; or empty */
    struct slice etag, last_modified; /* likewise, unchanged */
    struct slice links;               /* all Link headers, joined by commas */
    const char *final_url;            /* after redirects; NULL if not called */
    char why[160];                    /* a sentence, terminated: "the connection
                                         was refused" */
    int64_t took_us;                  /* of timeout_us */

    struct call_own own;
};

/* Queues a call. It always ends in `done` (unless it is cancelled, or prepare
 * returns CALL_NOT), never before caller_start has returned. */
void caller_start(struct caller *caller, struct call *call);

/* After CALL_LATER. `ready`: headers and body are set, or the user has taken
 * the piece. Else the call is not made, or given up (without `done`). It has
 * kept its turn. */
void caller_go(struct caller *caller, struct call *call, bool ready);

/* Gives up a call that is queued or under way, also in its own `prepare` and
 * `take`: does not call `done`, and closes the connection. Allowed if it is
 * neither. */
void caller_cancel(struct caller *caller, struct call *call);

/* Alarms, as loop_set_alarm (base/loop.h). */
void caller_set_alarm(struct caller *caller, struct alarm *alarm,
                      int64_t at_us);
void caller_clear_alarm(struct caller *caller, struct alarm *alarm);

/* Jobs */

/* Runs job->work, which may block, on the worker pool, then job->done here.
 * Always calls `done`. */
void caller_work(struct caller *caller, struct job *job);

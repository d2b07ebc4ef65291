/*
 * call_transport.h - the parts of a caller. For the files named here only.
 * Everything belongs to the caller's thread.
 *
 *     call_queue.c     hosts with waiting calls, and their turns
 *     call_transport.c   calls that are under way: libcurl
 *     call_transfer.c  one of them (call_transfer.h)
 *     call_sockets.c  their descriptors
 *     caller.c    the thread: its loop, its life
 *
 * The states of a call:
 *
 *     IDLE --caller_start--> WAITING --turn--> HELD --go--> GOING --+
 *      ^                        |               |                  |
 *      +--done---- FAILED <-----+---------------+ no memory, URL   |
 *      +--done-----------------------------------------------------+
 *
 * In HELD its prepare runs, or has returned CALL_LATER. All but WAITING are in
 * caller->calls or, if only `done` is left, in caller->failed.
 *
 * The user is never called from within libcurl, nor while a call changes:
 * caller_turn reports results before the loop sleeps.
 */
#ifndef BROKER_CALLS_CALL_TRANSPORT_H
#define BROKER_CALLS_CALL_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <curl/curl.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"
#include "broker/calls/caller.h"

#define SHARDS_MAX 64

/* Hosts are few compared with calls; with 65,536 at once, eight share a
 * bucket. */
#define HOST_BUCKETS 8192

enum call_state { CALL_IDLE, CALL_WAITING, CALL_HELD, CALL_GOING, CALL_FAILED };

/* Calls are of three kinds, which are counted and take turns separately. */
enum kind { SOUND, SUSPECT, UNPROVEN, KINDS };

/* "host:port", while there are calls to it. */
struct host {
    struct host *next; /* in its bucket */
    uint32_t hash;
    unsigned n_held;            /* calls that have had their turn */
    unsigned n_held_of[KINDS];  /* the same by kind */
    struct list waiting[KINDS]; /* of calls */
    struct list turns[KINDS];   /* in turns.rings, if one may have its turn */
    char key[];
};

struct turns {
    unsigned connections;
    unsigned host_connections;
    unsigned n_waiting;
    unsigned n_held;
    unsigned n_held_of[KINDS];
    enum kind next;           /* the ring to look at first */
    struct list rings[KINDS]; /* hosts: their node turns[kind] */
    struct list held;         /* calls: HELD and GOING */
    struct list failed;       /* calls: FAILED */
    struct call *preparing;   /* its prepare runs; NULL: it was cancelled
                                 there */
    struct host *hosts[HOST_BUCKETS];
};

/* One multi handle, and libcurl's requests to the loop. */
struct shard {
    struct caller *caller;
    CURLM *multi;        /* NULL: not needed yet */
    struct alarm alarm;  /* the time that libcurl asked for */
    struct list due;     /* in calling.due: its time has come */
    struct list touched; /* in calling.touched: may have results */
};

struct call_transport {
    bool has_curl;
    unsigned n_shards; /* a power of two */
    long kept;         /* connections that a shard keeps */
    char *trusted_path;
    struct x509_store_st
        *trusted; /* OpenSSL's X509_STORE; NULL: not read yet */
    struct shard shards[SHARDS_MAX];
    struct list due, touched;
    struct list spare;   /* transfers for the next call */
    struct list to_tell; /* transfers with a piece to hand over, or at their
                            end */
    struct call_transfer
        *handed;            /* its `take` runs; NULL: it was cancelled there */
    struct watch **watches; /* by descriptor */
    size_t n_watches;
};

struct caller {
    struct caller_options options;
    struct thread thread;
    struct loop *loop;
    struct turns turns;
    struct call_transport calling;
    struct task end; /* posted by caller_stop */
    bool is_cut;     /* at the end: no call goes on, none begins */
};

/* call_queue.c */

void turns_init(struct turns *t, unsigned connections,
                unsigned host_connections);

/* Begins calls whose turn it is, a bounded number. */
void turns_give(struct caller *caller);

/* True if turns_give has something to do. */
bool turns_are_due(const struct turns *t);

/* Gives back the turn of a call that is over; it is IDLE then. */
void turns_release(struct caller *caller, struct call *call);

/* Calls `done` of failed calls. */
void turns_tell_failed(struct caller *caller);

/* Forgets all calls. */
void turns_cut(struct caller *caller);

/* Notes why a call has no answer. */
void call_fail(struct call *call, enum call_failure failure, const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* call_transport.c */

MUST_CHECK enum status call_transport_init(struct caller *caller,
                                           struct problem *why);

/* Frees everything; closes handles of the loop, which end in its next run. */
void call_transport_fini(struct caller *caller);

/* Frees what the last run of the loop still used. */
void call_transport_free(struct caller *caller);

/* Begins a call to its host. false: it failed, for the reason in the call. */
MUST_CHECK bool call_transport_begin(struct caller *caller, struct call *call);

/* Stops a call. */
void call_transport_stop(struct caller *caller, struct call *call);

/* Continues a call when the user has taken its piece. */
void call_transport_taken(struct caller *caller, struct call *call);

/* Hands over pieces, and calls `done` of finished calls. */
void call_transport_tell(struct caller *caller);

/* Runs libcurl for shards that are due. */
void call_transport_drive(struct caller *caller);

/* The shard may have results. */
void call_transport_touch(struct shard *shard);

/* True if one of these two has something to do. */
bool call_transport_is_due(const struct call_transport *calling);

/* call_sockets.c */

/* Closes the rest, when libcurl has closed all its connections. */
void watching_fini(struct call_transport *calling);

/* For libcurl: CURLMOPT_SOCKETFUNCTION; `user` is the shard. */
int call_transport_on_socket(CURL *easy, curl_socket_t fd, int what, void *user,
                             void *socket_user);

#endif

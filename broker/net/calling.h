/*
 * calling.h - what a caller is made of. For the files named here only;
 * everything here belongs to the caller's thread, except what stands under
 * "Other threads".
 *
 *     turns.c     hosts with calls that wait, and whose turn it is
 *     calling.c   calls that are under way: libcurl
 *     transfer.c  one of them (transfer.h)
 *     watching.c  their descriptors
 *     alarms.c    timers
 *     caller.c    the thread: its loop, its mailbox, its life
 *
 * The states of a call:
 *
 *     IDLE --caller_start--> WAITING --turn--> HELD --go--> GOING --+
 *      ^                        |               |                  |
 *      +--done---- FAILED <-----+---------------+ no memory, URL   |
 *      +--done-----------------------------------------------------+
 *
 * In HELD its prepare runs, or it is LATER. All but WAITING are in
 * caller->calls or, if they need nothing but to be told, caller->failed.
 *
 * Nothing calls the user from within libcurl, nor while a call is changed: what
 * has happened is told in caller_turn, before the loop sleeps.
 */
#ifndef BROKER_NET_CALLING_H
#define BROKER_NET_CALLING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <curl/curl.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/net/caller.h"
#include "broker/net/jobs.h"

#define SHARDS_MAX 64

/* Hosts are few, compared with calls; with 65,536 of them at once, eight share
 * a bucket. */
#define HOST_BUCKETS 8192

enum call_state { CALL_IDLE, CALL_WAITING, CALL_HELD, CALL_GOING, CALL_FAILED };

/* Calls are of three kinds, which are counted and take turns separately. */
enum kind { SOUND, SUSPECT, UNPROVEN, KINDS };

/* "host:port", as long as there are calls to it. */
struct host {
    struct host *next; /* in its bucket */
    uint32_t hash;
    unsigned n_held;            /* calls that have their turn */
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
    enum kind next;           /* whose ring is looked at first */
    struct list rings[KINDS]; /* hosts: their node turns[kind] */
    struct list held;         /* calls: HELD and GOING */
    struct list failed;       /* calls: FAILED */
    struct call *preparing;   /* its prepare is running; NULL: it was
                                 cancelled there */
    struct host *hosts[HOST_BUCKETS];
};

/* One multi handle, and what libcurl wants to be told of. */
struct shard {
    struct caller *caller;
    CURLM *multi; /* NULL: not needed yet */
    uv_timer_t timer;
    struct list due;     /* in calling.due: its time has come */
    struct list touched; /* in calling.touched: may have results */
};

struct calling {
    bool has_curl;
    unsigned n_shards; /* a power of two */
    long kept;         /* connections that a shard keeps */
    char *trusted_path;
    struct x509_store_st
        *trusted; /* OpenSSL's X509_STORE; NULL: not read yet */
    struct shard shards[SHARDS_MAX];
    struct list due, touched;
    struct list spare;       /* transfers for the next call */
    struct list to_tell;     /* transfers: with a piece to hand over, or over */
    struct transfer *handed; /* whose `take` is running; NULL: it was cancelled
                                there */
    struct watch **watches;  /* by descriptor */
    size_t n_watches;
};

struct alarms {
    struct alarm *first;
    uv_timer_t timer;
    int64_t due_us; /* of the timer, if it is active */
    bool is_ringing;
};

struct caller {
    struct caller_options options;
    struct thread thread;
    uv_loop_t loop;
    uv_async_t async;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active: the loop must not sleep */
    struct turns turns;
    struct calling calling;
    struct alarms alarms;
    struct jobs jobs;
    bool is_cut; /* at the end: no call goes on, none begins */

    /* Other threads */

    atomic_bool is_wanted; /* caller_wake has asked, on_wake not yet run */
    pthread_mutex_t mutex; /* over all below */
    struct list mailbox;
    bool is_ending;
    bool is_ended; /* the async handle must not be used any more */
};

/* turns.c */

void turns_init(struct turns *t, unsigned connections,
                unsigned host_connections);

/* Lets calls begin whose turn it is, a bounded number of them. */
void turns_give(struct caller *caller);

/* Can turns_give do something? */
bool turns_are_due(const struct turns *t);

/* A call is over: gives its turn back; it is IDLE then. */
void turns_release(struct caller *caller, struct call *call);

/* Tells `done` of the calls that came to nothing. */
void turns_tell_failed(struct caller *caller);

/* Forgets all calls. */
void turns_cut(struct caller *caller);

/* Writes why a call came to no answer. */
void call_fail(struct call *call, enum call_failure failure, const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* calling.c */

MUST_CHECK enum status calling_init(struct caller *caller, struct problem *why);

/* Frees everything; handles of the loop are closed, and gone after its next
 * run. */
void calling_fini(struct caller *caller);

/* Frees what the last run of the loop has still used. */
void calling_free(struct caller *caller);

/* Sends a call on its way to its host. false: it failed, as it says. */
MUST_CHECK bool calling_begin(struct caller *caller, struct call *call);

/* Takes it back. */
void calling_stop(struct caller *caller, struct call *call);

/* What was handed over of it, to be taken later, is taken. */
void calling_taken(struct caller *caller, struct call *call);

/* Hands over what has come, and tells `done` of calls that have come to an end.
 */
void calling_tell(struct caller *caller);

/* Lets libcurl do what is due. */
void calling_drive(struct caller *caller);

/* The shard may have results. */
void calling_touch(struct shard *shard);

/* Can one of these two do something? */
bool calling_is_due(const struct calling *calling);

/* watching.c */

/* Closes what is left, when libcurl has closed all its connections. */
void watching_fini(struct calling *calling);

/* Of libcurl: CURLMOPT_SOCKETFUNCTION, the shard is `user`. */
int calling_on_socket(CURL *easy, curl_socket_t fd, int what, void *user,
                      void *socket_user);

/* alarms.c */

void alarms_init(struct caller *caller);

/* None rings any more. */
void alarms_fini(struct caller *caller);

#endif

/*
 * caller_state.h - the parts of a caller. For the files named here only, each
 * of which calls those above it. Everything belongs to the caller's thread.
 *
 *     call_queue.c      owners with waiting calls, and their turns
 *     call_sockets.c    the descriptors of calls that are under way
 *     call_transfer.c   one of these calls, the certificate authorities
 *     call_transport.c  all of them: libcurl
 *     call_plain.c      calls by HTTP without TLS, on connections of libcurl
 *     caller.c          the states of calls; the thread: its loop, its life
 *
 * The states of a call:
 *
 *     IDLE --caller_start--> WAITING --turn--> HELD --go--> GOING --+
 *      ^                        |               |                  |
 *      +--done---- FAILED <-----+---------------+ no memory, URL   |
 *      +--done-----------------------------------------------------+
 *
 * In HELD its prepare runs, or has returned CALL_LATER. In FAILED only `done`
 * is left.
 *
 * The user is never called from within libcurl, nor while a call changes:
 * results are reported before the loop sleeps.
 */
#ifndef BROKER_CALLS_CALLER_STATE_H
#define BROKER_CALLS_CALLER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <curl/curl.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/calls/caller.h"
#include "proto/buf.h"

#define SHARDS_MAX 64

enum call_state { CALL_IDLE, CALL_WAITING, CALL_HELD, CALL_GOING, CALL_FAILED };

/* Calls are of three kinds, which are counted and take turns separately. */
enum kind { SOUND, SUSPECT, UNPROVEN, KINDS };

/* Calls that have had their turn. */
struct call_count {
    unsigned n;
    unsigned of[KINDS]; /* the same by kind */
};

/* A count of calls, and those that wait: of the queue itself, with its owners;
 * of an owner (a client, or the broker), with its lanes; of a lane, its calls
 * to one host. A host only counts. Owners and lanes last while they have calls,
 * a host while it has lanes or plain connections. */
struct place {
    struct map_node node;
    struct map *map;      /* that it is in */
    struct slice key;     /* behind this struct; a NUL follows it */
    struct place *parent; /* of a lane, its owner; of an owner, the queue */
    struct place *host;   /* of a lane */
    unsigned n_users;     /* places in it; calls of a lane; connections */
    struct call_count n_held;
    struct list waiting[KINDS];  /* calls of a lane; else the places in it that
                                    have some, by turns[kind] */
    struct list turns[KINDS];    /* in parent->waiting */
    const struct client *client; /* of an owner; NULL: the broker */

    /* Of a host: connections of call_plain.c. */
    unsigned n_plain;
    struct list kept; /* those without a call */
};

struct call_queue {
    unsigned connections;
    unsigned host_connections;
    unsigned n_waiting;
    enum kind next;    /* to look at first */
    struct list held;  /* calls: HELD and GOING */
    struct place all;  /* has the owners */
    struct map hosts;  /* by "host:port" */
    struct map owners; /* by the address of the client */
    struct map lanes;  /* by the addresses of owner and host */
};

/* The authorities in the system's file, and those of --ca-file. */
struct call_trust {
    char *path;
    unsigned number;                   /* authorities_number of `authorities` */
    struct x509_store_st *authorities; /* OpenSSL's X509_STORE; NULL: not read
                                          yet */
};

/* One multi handle, and libcurl's requests to the loop. */
struct shard {
    struct caller *caller;
    CURLM *multi;        /* NULL: not needed yet */
    struct alarm alarm;  /* the time that libcurl asked for */
    struct list due;     /* in call_transport.due: its time has come */
    struct list touched; /* in call_transport.touched: may have results */
};

struct call_transport {
    /* Continues a call whose connection is open. Owns the descriptor. */
    void (*on_connected)(struct caller *caller, struct call *call, int fd);

    bool has_curl;
    unsigned n_shards;  /* a power of two */
    long kept_of_shard; /* connections that a shard keeps */
    size_t kept;        /* connections that the caller keeps in all */
    size_t n_open;      /* sockets of libcurl */
    struct call_trust trust;
    struct shard shards[SHARDS_MAX];
    struct list due, touched;
    struct list spare;     /* transfers for the next call */
    struct list to_report; /* transfers with a piece to hand over, or at their
                            end */
    struct call_transfer
        *handed;        /* its `take` runs; NULL: it was cancelled there */
    struct map watches; /* by descriptor */
};

/* Headers of ours, in every call. */
#define CALL_TRANSFER_HEADERS 2

/* Bytes of one recv() of call_plain.c. */
#define CALL_PLAIN_READ_SIZE ((size_t)16 * 1024)

struct call_plain {
    struct list kept; /* connections without a call, the oldest first */
    size_t n_kept;
    struct alarm old;                 /* closes the oldest */
    struct buf request;               /* scratch: the head of a request */
    struct buf links;                 /* of the answer that is reported */
    char bytes[CALL_PLAIN_READ_SIZE]; /* that were read last */
};

struct call_transfer {
    struct list node; /* in the list of spare ones, or in to_report */
    struct caller *caller;
    struct shard *shard;
    struct call *call;
    CURL *easy;
    CURLU *url;
    struct curl_slist headers[CALL_TRANSFER_HEADERS + CALL_HEADERS_MAX];
    struct buf answer;
    struct buf links;
    size_t head_size;  /* bytes of headers so far */
    unsigned n_heads;  /* status lines so far */
    unsigned n_opened; /* sockets since the last status line */
    char refused[64];  /* an address that may not be called; else "" */
    bool has_head;     /* the answer's head is complete */
    bool is_short;     /* no descriptor was left */
    bool is_cut;       /* the answer is longer than max_answer or max_taken */
    bool is_foreign;   /* the answer is of another version of HTTP */
    bool is_coded;     /* its Content-Encoding is being undone */
    bool is_unknown;   /* it has one that cannot be undone */
    char error[CURL_ERROR_SIZE];

    /* For call_plain.c: libcurl only connects. */
    bool connects;
    int fd; /* the connected socket, ours; -1: none */

    /* An answer in pieces: call_transport.c. The piece is `answer`. */
    uint64_t n_taken;  /* bytes so far */
    bool is_with_user; /* the user has returned CALL_LATER */

    /* The end, until the user gets it. */
    bool is_over;
    CURLcode result;

    struct alarm stall;
    int64_t heard_us; /* when the last byte came */
    bool is_stalled;
};

struct caller {
    struct caller_options options;
    struct thread thread;
    struct loop *loop;
    struct call_queue queue;
    struct list failed;     /* calls: FAILED */
    struct call *preparing; /* its prepare runs; NULL: it was cancelled there */
    struct call_transport transport;
    struct call_plain plain;
    struct task end; /* posted by caller_stop */
    bool is_cut;     /* at the end: no call goes on, none begins */
};

/* True if a call may use no kept connection. */
static inline bool
call_is_once(const struct call *call)
{
    return call->is_once || call->is_suspect || call->is_unproven;
}

/* call_queue.c */

void call_queue_init(struct call_queue *queue, unsigned connections,
                     unsigned host_connections);

/* Makes a call WAITING. False: its URL is none that can be called. */
MUST_CHECK bool call_queue_add(struct call_queue *queue, struct call *call);

/* Takes a WAITING call out; it is IDLE then. */
void call_queue_remove(struct call_queue *queue, struct call *call);

/* Takes out all WAITING calls, when none is HELD or GOING, and frees the table.
 */
void call_queue_clear(struct call_queue *queue);

/* Returns the call whose turn it is; it is HELD then. NULL: none. */
struct call *call_queue_take(struct call_queue *queue);

/* True if call_queue_take would return one. */
bool call_queue_is_due(const struct call_queue *queue);

/* Gives back the turn of a call that is HELD or GOING; it is IDLE then. */
void call_queue_release(struct call *call);

/* The host of a call that is in the queue. */
static inline struct place *
call_host(const struct call *call)
{
    return ((const struct place *)call->own.lane)->host;
}

/* Ends one use of a place, and frees it with its last. */
void place_leave(struct place *place);

/* call_sockets.c */

/* Closes the rest, when libcurl has closed all its connections. */
void call_sockets_fini(struct call_transport *transport);

/* True if a call may reach an address. */
bool call_may_reach(const struct caller *caller, const struct call *call,
                    const struct sockaddr *address);

/* Marks a shard that may have results. */
void shard_touch(struct shard *shard);

/* For libcurl: CURLMOPT_SOCKETFUNCTION; `user` is the shard. */
int call_sockets_watch(CURL *easy, curl_socket_t fd, int what, void *user,
                       void *socket_user);

/* For libcurl: opens a socket after judging its address; judges the address of
 * the connection that a request is about to use; closes a socket. */
curl_socket_t call_sockets_open(void *transfer, curlsocktype purpose,
                                struct curl_sockaddr *address);
int call_sockets_judge(void *transfer, char *address, char *local, int port,
                       int local_port);
int call_sockets_close(void *caller, curl_socket_t fd);

/* call_transfer.c */

/* Notes why a call has no answer. */
void call_fail(struct call *call, enum call_failure failure, const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* True if the headers of a call may be sent; else it failed, for the reason in
 * the call. */
MUST_CHECK bool call_headers_are_fine(struct call *call);

/* Reads Retry-After; 0: none, or in the past. */
int64_t call_retry_after_us(struct slice value);

/* Finds the file of the authorities. */
void call_trust_init(struct call_trust *trust,
                     const struct curl_version_info_data *version);
void call_trust_fini(struct call_trust *trust);

/* Makes a transfer, which is used for one call after the other: its constant
 * options are set once. NULL: no memory. */
struct call_transfer *call_transfer_new(struct caller *caller);
void call_transfer_free(struct call_transfer *transfer);

/* Sets the options of a call, or, if it `connects`, those of its connection.
 * false: it failed, for the reason in the call. */
MUST_CHECK bool call_transfer_set(struct call_transfer *transfer,
                                  struct call *call, bool connects);

/* Writes the outcome into the call: lent from the transfer. */
void call_transfer_report(struct call_transfer *transfer);

/* True if there is a piece to hand over, before anything else. */
bool call_transfer_has_piece(const struct call_transfer *transfer);

/* Continues when the user has taken the piece. false: the call has ended by
 * that. */
bool call_transfer_go_on(struct call_transfer *transfer);

/* Makes it ready for the next call: nothing is lent any more. */
void call_transfer_clear(struct call_transfer *transfer);

/* Puts it on the list of those with a piece to hand over, or at their end. */
void call_transfer_set_to_report(struct call_transfer *transfer);

/* call_transport.c */

MUST_CHECK enum status call_transport_init(struct caller *caller,
                                           struct problem *why);

/* Frees everything; closes handles of the loop, which end in its next run. */
void call_transport_fini(struct caller *caller);

/* Frees what the last run of the loop still used. */
void call_transport_free(struct caller *caller);

/* Begins a call to its host; or, if it `connects`, only connects, and passes
 * the descriptor to on_connected. false: it failed, for the reason in the call.
 */
MUST_CHECK bool call_transport_begin(struct caller *caller, struct call *call,
                                     bool connects);

/* Stops a call. */
void call_transport_stop(struct caller *caller, struct call *call);

/* Continues a call when the user has taken its piece. */
void call_transport_taken(struct caller *caller, struct call *call);

/* Hands over pieces, and calls `done` of finished calls. */
void call_transport_report(struct caller *caller);

/* Runs libcurl for shards that are due. */
void call_transport_drive(struct caller *caller);

/* True if one of these two has something to do. */
bool call_transport_is_due(const struct call_transport *transport);

/* call_plain.c */

void call_plain_init(struct call_plain *plain);

/* Closes kept connections, when no call goes on; frees the rest. */
void call_plain_close(struct caller *caller);
void call_plain_fini(struct call_plain *plain);

/* True if call_plain.c makes such a call. */
bool call_is_plain(const struct call *call);

/* Begins a plain call on a kept connection. False: there is none for it, and
 * call_transport_begin opens a new one, which comes to call_plain_adopt. */
bool call_plain_begin(struct caller *caller, struct call *call);

/* Sends the request of a call on a new connection. Owns the descriptor. */
void call_plain_adopt(struct caller *caller, struct call *call, int fd);

/* Stops a call. */
void call_plain_stop(struct call *call);

/* Closes kept connections that are too many, those of libcurl included. */
void call_plain_make_room(struct caller *caller);

#endif

/*
 * caller_state.h - the parts of a caller. For the files named here only, each
 * of which uses those above it. Everything belongs to the caller's thread.
 *
 *     call_queue.c       owners with waiting calls, and their turns
 *     call_connection.c  connections: TLS with its sessions, sockets, bytes,
 *                        and those that are kept
 *     call_connect.c     how they open: look-up, TCP, handshake
 *     call_exchange.c    a request and its answer; redirects
 *     caller.c           the states of calls; the thread: its loop, its life
 *
 * The states of a call:
 *
 *     IDLE --caller_start--> WAITING --turn--> HELD --go--> GOING -+
 *      ^                        |               |                  |
 *      +--done---- FAILED <-----+---------------+ bad headers      |
 *      +--done-----------------------------------------------------+
 *
 * In HELD its prepare runs, or has returned CALL_LATER. In FAILED only `done`
 * is left. In GOING it has a connection:
 *
 *     look-up --> TCP --> TLS --> BUSY --whole answer--> KEPT --+
 *     |                            ^                            |
 *     |                            +------- the next call ------+
 *     closed: after any failure, surplus bytes, "Connection: close"; a KEPT one
 *     when it becomes readable, is old, or there are too many
 */
#pragma once

#include <netinet/in.h>
#include <sys/un.h>
#include <uv.h>

#include "base/gunzip.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/base/lookup.h"
#include "broker/calls/caller.h"
#include "proto/http/chunked.h"
#include "proto/http/response_head.h"

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
 * a host while it has lanes or connections, or a redirect leads to it. */
struct place {
    struct map_node node;
    struct call_queue *queue;
    struct map *map;      /* that it is in */
    struct slice key;     /* behind this struct; a NUL follows it */
    struct place *parent; /* of a lane, its owner; of an owner, the queue */
    struct place *host;   /* of a lane */
    unsigned n_users;     /* places in it; calls of a lane; connections,
                         redirects */
    struct call_count n_held;
    struct list waiting[KINDS];  /* calls of a lane; else the places in it that
                                    have some, by turns[kind] */
    struct list turns[KINDS];    /* in parent->waiting */
    const struct client *client; /* of an owner; NULL: the broker */

    /* Of a host. */
    unsigned n_connections;
    struct list kept; /* connections without a call, the last used first */
    struct spelling *spelling; /* of the URL that was parsed last for it; NULL:
                                  none */
};

struct call_queue {
    unsigned connections;
    unsigned host_connections;
    unsigned n_waiting;
    enum kind next;       /* to look at first */
    struct list held;     /* calls: HELD and GOING */
    struct place all;     /* has the owners */
    struct map hosts;     /* by "host:port" */
    struct map spellings; /* of hosts (call_queue.c) */
    struct map owners;    /* by the address of the client */
    struct map lanes;     /* by the addresses of owner and host */
    struct list spare;    /* lanes that nothing uses, by `kept` */
    unsigned n_spare;     /* of these */
};

/* TLS of all connections. */
struct call_tls {
    struct ssl_ctx_st *ctx; /* OpenSSL's SSL_CTX; NULL: not made yet */
    unsigned number;        /* authorities_number of its authorities */
    struct map sessions;    /* by "host:port" */
    struct list recent;     /* the same, the last used last */
};

struct call_socket {
    uv_poll_t poll;
    struct call_connection *connection;
    int fd;
    int events; /* that the loop watches, of libuv */

    union {
        struct sockaddr any;
        struct sockaddr_un of_unix;
        union lookup_address ip;
    } address;
};

enum body_end { BODY_MORE, BODY_WHOLE, BODY_CUT, BODY_BROKEN };

/* What has gone over a connection of its present call. All 0: nothing. */
struct call_exchange {
    /* The request. */
    bool has_request;   /* it has been written */
    bool is_joined;     /* the body is behind the head, in one buffer */
    size_t n_unsent;    /* bytes of head and body */
    bool is_unsendable; /* the other side takes no more of it */

    /* The answer. */
    bool has_byte; /* one came */
    bool has_head; /* connection->answer is valid: the last head is whole */
    struct head_seen seen;
    size_t n_before;       /* bytes of interim heads */
    uint64_t n_left;       /* bytes of the body to come, if it has a length */
    struct gunzip *gunzip; /* undoes its Content-Encoding; NULL: it has none */
    bool has_coded;        /* some of it has come */
    bool is_handed_over;   /* in pieces */
    uint64_t n_taken;      /* bytes of the body, or of all pieces, so far */
    bool is_with_user;     /* the user has the piece, and has returned
                              CALL_LATER */
    enum body_end end;
    bool is_kept; /* the connection, after that */
};

/* A connection, from the look-up of its host on. */
struct call_connection {
    struct list node; /* KEPT: in host->kept; else in caller->due, if something
                         is to be done that no descriptor reports */
    struct list age;  /* KEPT: in caller->kept */
    struct caller *caller;
    struct place *host;
    struct call *call; /* NULL: KEPT */
    bool is_tls;
    struct connecting *connecting; /* NULL: it is open */
    struct call_socket *socket;    /* NULL: not connected, or hung up */
    struct ssl_st *ssl;            /* OpenSSL's SSL, with the socket, if is_tls
                                    */
    int64_t verified_us;           /* of the session that it resumes */
    int64_t kept_us;               /* since when it is KEPT */
    bool is_reused;                /* the call found it kept */

    /* Time. */
    struct alarm deadline;
    struct alarm silence; /* if the call has stall_us */
    int64_t heard_us;     /* when the last byte came */

    struct call_exchange now;
    struct buf request; /* its head, if it could not be sent at once */
    struct buf head;    /* what came of the last head of the answer */
    struct buf body;    /* or the next piece of it */
    struct response_head answer;
    struct chunked chunked;
};

/* Bytes of one read. */
#define CALL_READ_SIZE ((size_t)16 * 1024)

struct caller {
    struct caller_options options;
    struct thread thread;
    struct loop *loop;
    struct call_queue queue;
    struct list failed;     /* calls: FAILED */
    struct call *preparing; /* its prepare runs; NULL: it was cancelled there */
    struct call_connection *handing; /* its call's `take` runs; NULL: the call
                                   was cancelled there */
    struct task end;                 /* posted by caller_stop */
    bool is_cut; /* at the end: no call goes on, none begins */

    /* Connections. */
    struct call_tls tls;
    struct lookup_box lookups;
    struct task found;  /* posted when `lookups` has answers */
    struct list due;    /* connections: see their `node` */
    struct list kept;   /* connections without a call, the oldest first */
    size_t n_kept;      /* of these */
    size_t n_sockets;   /* of all connections */
    size_t kept_max;    /* sockets at which kept ones are closed */
    struct alarm old;   /* closes the oldest */
    struct buf request; /* scratch: the head of a request */
    struct buf links;   /* of the answer that is reported */
    struct buf coded;   /* scratch: bytes of a coded body */
    char bytes[CALL_READ_SIZE]; /* that were read last */
};

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

/* The host that a call in the queue has been sent to: by its URL, or by the
 * last redirect. */
static inline struct place *
call_host(const struct call *call)
{
    return call->own.redirected ? call->own.host : call->own.lane->host;
}

static inline const char *
call_url(const struct call *call)
{
    return call->own.redirected ? call->own.redirected : call->url;
}

/* Begins a use of the host of a URL. NULL: it is none that can be called. */
struct place *call_queue_host(struct call_queue *queue, const char *url);

/* Ends one use of a place, and frees it with its last. */
void place_leave(struct place *place);

/* call_connection.c */

/* IO_PASSED: a message of TLS was read, no byte; bytes may be behind it. */
enum call_io { IO_OK, IO_PASSED, IO_AGAIN, IO_END, IO_BROKEN };

/* Makes the TLS of a connection whose TCP is open, to the host of that name.
 * False: TLS cannot be used, as `why` says. */
MUST_CHECK bool call_tls_begin(struct call_connection *connection,
                               const char *name, struct problem *why);

/* Each goes on as far as the socket lets it. IO_END: the other side has said
 * that it sends no more. */
MUST_CHECK enum call_io call_tls_shake(struct call_connection *connection,
                                       struct problem *why);

/* True if nothing of the other side waits to be read. */
MUST_CHECK bool call_tls_is_quiet(struct ssl_st *ssl);

/* Notes why a call has no answer. */
void call_fail(struct call *call, enum call_failure failure, const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* True if a call may reach an address. */
bool call_may_reach(const struct caller *caller, const struct call *call,
                    const struct sockaddr *address);

/* Opens a socket, and begins to connect it. NULL: see errno. */
struct call_socket *call_socket_open(struct call_connection *connection,
                                     const struct sockaddr *address);
void call_socket_close(struct call_socket *socket);

/* Makes the loop watch for `events`, 0 for none. False: no memory. */
MUST_CHECK bool call_socket_watch(struct call_socket *socket, int events,
                                  uv_poll_cb on_event);

/* Makes a connection for a call to its host, which does not connect yet. */
struct call_connection *call_connection_new(struct caller *caller,
                                            struct call *call);

/* Takes a kept connection to the call's host whose address may be called; NULL:
 * there is none. */
struct call_connection *call_connection_take_kept(struct caller *caller,
                                                  struct call *call);

/* Keeps an open connection for the next call to its host. */
void call_connection_keep(struct call_connection *connection);

/* Its call has no limit of time any more. */
void call_connection_clear_alarms(struct call_connection *connection);

/* Closes its socket; only call_connection_close is left. */
void call_connection_hang_up(struct call_connection *connection);

/* Closes and frees it. It has no call any more, and does not connect. */
void call_connection_close(struct call_connection *connection);

/* Sends what the socket takes of two slices, from the byte `n_sent` of both on,
 * and adds its size to `*n`. */
MUST_CHECK enum call_io call_connection_send(struct call_connection *connection,
                                             struct slice head,
                                             struct slice body, size_t n_sent,
                                             size_t *n);
MUST_CHECK enum call_io call_connection_read(struct call_connection *connection,
                                             size_t size, size_t *n);

void call_connections_init(struct caller *caller);

/* Closes kept connections that are too many. */
void call_connections_make_room(struct caller *caller);

/* Closes all kept ones, when no call goes on; frees the rest. */
void call_connections_close(struct caller *caller);
void call_connections_fini(struct caller *caller);

/* call_connect.c */

/* Begins to open a new connection for its call. It is in caller->due when it is
 * open, or its call has failed for the reason in the call. */
void call_connect(struct call_connection *connection);

/* Stops that, in whatever state. */
void call_connect_stop(struct call_connection *connection);

/* A task: goes on with connections whose hosts were found. */
void call_connect_found(struct task *task);

/* call_exchange.c */

/* Begins a call, on a kept connection or a new one. */
void call_begin(struct caller *caller, struct call *call);

/* Stops a call. */
void call_stop(struct call *call);

/* Continues a call when the user has taken its piece. */
void call_taken(struct call *call);

/* Goes on with the connections in caller->due. */
void call_go_on(struct caller *caller);

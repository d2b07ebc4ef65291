/*
 * connection.h - one TCP connection, and what it is doing. For this folder
 * only.
 *
 *            +------------------ next request -----------------+
 *            v                                                 |
 *     PHASE_HEAD --> PHASE_BODY --> PHASE_HANDLER --> PHASE_ANSWER --> closed
 *       |    |            |                               |             ^
 *       |    |            +--- refused early -------------+--> PHASE_LINGER
 *       |    +--> PHASE_HANDLER (no body) ...
 *       +--> PHASE_STREAM --> PHASE_FAREWELL --> closed
 *       +--> PHASE_LONG ----> PHASE_FAREWELL --> PHASE_LINGER
 *
 * connection_enter alone changes the phase. Every phase but HANDLER, STREAM and
 * LONG has a deadline, which service_second looks at: the library's own timers
 * are in one sorted list per thread, too slow to be touched for each request.
 *
 * A connection belongs to its service thread. libwebsockets knows it as the
 * opaque user data of its struct lws, which survives from request to request
 * (session data do not); it is freed in LWS_CALLBACK_WSI_DESTROY and nowhere
 * else, after connection_gone has told whoever was served.
 */
#ifndef BROKER_NET_CONNECTION_H
#define BROKER_NET_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include <libwebsockets.h>

#include "broker/base/list.h"
#include "proto/slice.h"

struct request;
struct service;
struct stream;

/* A kept connection may be silent for so long between two requests. */
#define IDLE_US 75000000

/* The default of server_options.stall_timeout_us. */
#define STALL_US 60000000

/* After a refusal, what still comes is read for so long and up to so much: more
 * than both sides' buffers take (some 10 MB on Linux), which a client may have
 * filled before it sees the answer. A reset then would take that away from it.
 */
#define LINGER_US    2000000
#define LINGER_BYTES (16 * 1024 * 1024)

/* A farewell (WebSocket close) that is not answered, or the end of a long
 * answer that is not taken. */
#define FAREWELL_US 5000000

enum phase {
    PHASE_HEAD,     /* waiting for a request: first or next */
    PHASE_BODY,     /* receiving its body */
    PHASE_HANDLER,  /* a handler owes the answer */
    PHASE_ANSWER,   /* the answer is being sent */
    PHASE_LINGER,   /* answered for good; reads what still comes */
    PHASE_STREAM,   /* a WebSocket */
    PHASE_LONG,     /* an answer without a known end: stream.h */
    PHASE_FAREWELL, /* being closed with a close frame, or last bytes */
    PHASE_GONE      /* closed, or as good as */
};

/* In which callback of libwebsockets about this connection the thread is: there
 * a return value says how to go on, elsewhere a call. */
enum inside {
    INSIDE_NOTHING,
    INSIDE_HEAD,    /* a request has come */
    INSIDE_BODY,    /* more of its body, or its end */
    INSIDE_WRITABLE /* there is room to write */
};

/* What is read. While an answer is owed or sent nothing may be: libwebsockets
 * would turn in its loop without taking it. */
enum flow {
    FLOW_OPEN,
    FLOW_HELD, /* nothing is read, and nobody hears of room to write either */
    FLOW_QUIET /* nothing is read */
};

struct connection {
    struct list node;  /* service->timed or ->untimed */
    struct list ready; /* service->ready or ->blocked, or none */
    struct lws *wsi;
    struct service *service;
    struct request *request; /* NULL: none at hand */
    struct stream *stream;   /* NULL: neither WebSocket nor long answer */
    enum phase phase;
    enum inside inside;
    enum flow flow;
    bool is_busy; /* counted in service->n_busy */
    /* "POST ": how the head of the request began, until the first bytes of its
     * body were seen; see is_own_head in exchange.c. */
    const char *own_head;
    int64_t deadline_us;
    bool is_spared;   /* late, but with one more turn; see connection_check */
    uint64_t acked;   /* PHASE_ANSWER: bytes the client has acknowledged */
    uint64_t drained; /* PHASE_LINGER: bytes read and dropped */
    uint64_t turn;    /* see is_looping in exchange.c */
    unsigned n_turns;
};

/* 0, or -1: close it (no memory). */
int connection_new(struct lws *wsi);

/* The one to which `wsi` belongs; NULL: none (a listener). */
struct connection *connection_of(struct lws *wsi);

/* The connection is closed: whoever was served is told. Harmless if repeated.
 */
void connection_gone(struct connection *c);

/* Frees it. */
void connection_free(struct connection *c);

/* `deadline_us` is on the steady clock; 0: none. */
void connection_enter(struct connection *c, enum phase phase,
                      int64_t deadline_us);

/* The client has taken some of its answer, or only now gets any: it has time
 * again. */
void connection_set_progress(struct connection *c);

/* Should the end of the server wait for it? */
void connection_set_busy(struct connection *c, bool is_busy);

/* Ends it, soon: its callbacks come later, never from within this call. */
void connection_kill(struct connection *c);

/* Tries to send what is kept back. */
void connection_flush(struct connection *c);

/* Changes what is read; FLOW_QUIET only within INSIDE_WRITABLE, whose callback
 * then has to return 1. */
void connection_set_flow(struct connection *c, enum flow flow);

/* Writes bytes as they are; libwebsockets keeps what the socket does not take.
 * false: the connection is dead, and killed. */
bool connection_write(struct connection *c, const void *data, size_t size);

/* Is something kept back, so that nothing more should be written? */
bool connection_is_choked(const struct connection *c);

/* The answer goes on soon, outside of all callbacks of the library. */
void connection_set_ready(struct connection *c);

/* The answer goes on when there is room to write. */
void connection_await_room(struct connection *c);

/* Is there none now? Costs a system call. */
bool connection_is_full(const struct connection *c);

/* Does it speak TLS? Then its end is something to be sent, too. */
bool connection_is_tls(const struct connection *c);

/* Ends what is sent, and reads what still comes for a short while, so that the
 * client can read its answer: closed with unread bytes, a socket is reset, and
 * what was sent may be lost. */
void connection_linger(struct connection *c);

/* Has it sent bytes that nobody has read yet? */
bool connection_has_unread(const struct connection *c);

/* The address at its other end, without a port; "": not known. */
void connection_peer(const struct connection *c, char *to, size_t size);

/* Once a second: looks at the deadline, and whether the client is still there.
 */
void connection_check(struct connection *c, int64_t now_us);

/* libwebsockets calls back about a connection. */
int connection_dispatch(struct lws *wsi, enum lws_callback_reasons reason,
                        void *user, void *in, size_t size);

#endif

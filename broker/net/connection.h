/*
 * connection.h - one connection, and its phase. For this folder only.
 *
 *            +------------------ next request -----------------+
 *            v                                                 |
 *           head ------> body ------> handler ------> answer --+--> closed
 *            |  |         |                             |             ^
 *            |  |         +------ refused early --------+--> linger --+
 *            |  +--> handler (no body) ...
 *            +--> stream --> farewell --> linger
 *            +--> long ----> long farewell --> linger
 *
 *     head --the client, or its time, ends--> linger, past its time --> closed
 *
 * A phase is a row of functions (struct phase). The rows are in the files that
 * do the work: head, body and handler in exchange.c, answer in response.c, the
 * streams and their farewells in stream.c, linger here. So this file names no
 * protocol.
 *
 * Only connection_enter changes the phase. Heads, lingering and farewells have
 * a deadline. Bytes of a body, or to a client, must move at min_rate, measured
 * over each server_options.request_timeout_us: a silent or slow client holds
 * nothing for long. The phases check both, once a second (connection_check).
 *
 * The connection keeps bytes that come before the answer is sent, at most one
 * read of them (INPUT_SIZE); the kernel keeps the rest. It also keeps bytes of
 * a write that the socket does not take, at most one piece (WRITE_MAX of
 * response.c, STREAM_FRAME_MAX): nothing more is written until these are sent.
 *
 * No bytes stay behind a connection. One that is cut, or whose client takes too
 * little, is reset, so that the kernel drops what it holds. After a whole
 * answer the connection lasts, and counts, until the client has taken
 * everything; past LINGER_US it reads nothing meanwhile. Once a second the
 * bytes that the kernel holds count for the client (CLIENT_KERNEL); over the
 * limit, connections that take little end.
 *
 * A connection counts for a client (client_limits.h): as a connection; until
 * its first request is complete, and while another one is incomplete, as a half
 * head; and as a stream while it is one. A trusted proxy's connection counts
 * for a client only while it serves a request of that client. If no descriptor
 * is left, a new connection displaces one that waits for a request. The
 * operator's connections (LISTENER_CONTROL) count for no client, are not
 * displaced, and have descriptors that the others leave free.
 *
 * A connection belongs to its service thread. It is freed in the turn of the
 * loop in which it was closed, after on_gone has called its handler.
 */
#pragma once

#include "broker/base/authority.h"
#include "broker/base/client_limits.h"
#include "broker/net/body.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "broker/net/socket.h"
#include "proto/http/request_head.h"

/* The longest silence of a kept connection between two requests. */
#define IDLE_US 75000000

/* After a refusal the broker reads on for so long and up to so much: more than
 * both sides' buffers hold (some 10 MB on Linux), which a client may have
 * filled before it sees the answer. A reset would take the answer from it. */
#define LINGER_US    2000000
#define LINGER_BYTES (16 * 1024 * 1024)

/* The time for the answer to a farewell (WebSocket close), or for the client to
 * take the end of a long answer. */
#define FAREWELL_US 5000000

/* What a connection does in one phase. */
struct phase {
    /* Takes bytes of the client; returns how many, 0: more must come first.
     * NULL: the phase reads nothing. */
    size_t (*take)(struct connection *c, struct slice bytes);

    /* False: it reads nothing now. NULL: true. */
    bool (*is_reading)(const struct connection *c);

    /* There is room, and nothing is kept back. NULL: nothing is sent. */
    void (*send)(struct connection *c);

    /* Checks the deadline, the rate, or whether the client is still there, once
     * a second. */
    void (*check)(struct connection *c, int64_t now_us);

    bool is_head;     /* waits for a request: may be displaced */
    bool is_untimed;  /* checked only while bytes wait for room */
    bool is_busy;     /* the end of the server waits for it */
    bool is_good_end; /* a connection that is closed in it ends in order: nobody
                         takes a part for the whole */
};

/* Waiting bytes: `data` from `at` on. NULL: none. */
struct waiting {
    char *data;
    uint32_t at, size, capacity;
};

_Static_assert(CLIENT_KINDS <= 32, "a bit for each");

struct connection {
    struct list node;  /* service->heads, ->timed or ->untimed */
    struct list ready; /* in service->ready: the loop calls stream_proceed or
                          connection_proceed in this turn; or not */
    struct socket socket;
    struct service *service;
    struct client *client; /* the client that it counts for; NULL: none */
    struct client *owner;  /* of the token of its request, or of its stream:
                              the rest of it counts for that one; or NULL */
    struct authority *authority; /* of its request or stream; or NULL */
    struct request *request;     /* NULL: none at hand */
    struct stream *stream;       /* NULL: neither WebSocket nor long answer */
    const struct phase *phase;
    void (*on_gone)(struct connection *c); /* frees its request or stream, and
                                              calls their handlers; NULL: it
                                              never had any */
    bool is_busy;                          /* counted in service->n_busy */
    bool is_inside; /* feed() reads its input, and continues when a handler
                       answers meanwhile */
    bool is_spared; /* late, but with one more turn */
    bool is_awaiting_room;
    enum listener_kind listener; /* the one that accepted it */
    bool is_proxied;             /* by a trusted proxy */
    unsigned counted;            /* as which of enum client_kind, as bits */
    bool is_widened;             /* see connection_widen */
    int64_t deadline_us;
    int64_t measured_us; /* when `moved` was noted; 0: begin again, as after
                            the broker itself held up the bytes */
    uint64_t moved;      /* bytes of the body, or that the client has
                            taken */
    uint64_t received;   /* bytes of bodies and of frames */
    uint64_t sent;       /* bytes of answers, those in `out` included */
    uint64_t drained;    /* bytes read and dropped, lingering */
    uint64_t settled;    /* `sent` when the client had taken everything */
    uint64_t acked;      /* bytes that it had taken at the last look */
    struct holding left; /* bytes that the kernel holds for it */
    struct client_address peer; /* the other end of the socket */
    struct client_address at;   /* the client of the present request */
    struct head_seen seen;      /* of an incomplete head */
    struct waiting in;          /* read, and not parsed yet */
    struct waiting out;         /* to send when there is room */
};

/* Takes over `fd`, a socket of `peer` that a listener has accepted; closes it
 * if its client has its share, or without memory. If no descriptor is left,
 * displaces a connection of a client that has as many as its own, or more. If
 * there is none of these, `fd` stays open, and the caller's: STATUS_LIMITED:
 * all of this service that could be displaced are of clients that have less;
 * STATUS_BUSY: none can be displaced. */
MUST_CHECK enum status connection_new(struct service *service, int fd,
                                      const struct sockaddr *peer,
                                      enum listener_kind listener);

/* Ends a connection that waits for a request, so that its descriptor is free.
 * False: none waits. */
bool connection_displace(struct service *service);

/* Counts the connection for the client of a request from a trusted proxy, which
 * `forwarded` and `x_forwarded_for` name (forwarded.h), or for the proxy
 * itself, until connection_end_clients. That comes before the last bytes of the
 * answer: with these the client may send its next request, on another
 * connection of the proxy. STATUS_LIMITED. Does nothing for other
 * connections. */
MUST_CHECK enum status connection_count_proxied(struct connection *c,
                                                struct slice forwarded,
                                                struct slice x_forwarded_for,
                                                struct problem *why);
void connection_end_clients(struct connection *c);

/* Lets the present request count for `owner`, whose reference it takes over,
 * until its answer; a stream for as long as it lives. */
void connection_set_owner(struct connection *c, struct client *owner);

/* Sets for how long the present request, or the stream, may go on: until that
 * authority ends, whose reference it takes over. NULL: for ever. */
void connection_set_authority(struct connection *c,
                              struct authority *authority);

/* Counts it for its client as one of `kind`, once: as a connection, a half head
 * or a stream. The client of a half head from a proxy is not known yet, so that
 * does not count. STATUS_LIMITED. */
MUST_CHECK enum status connection_count(struct connection *c,
                                        enum client_kind kind,
                                        struct problem *why);

/* `deadline_us` is on the steady clock; 0: none. */
void connection_enter(struct connection *c, const struct phase *phase,
                      int64_t deadline_us);

/* Waits for the next request: enters the first phase again. */
void connection_restart(struct connection *c);

/* True if the connection was closed, or is about to be. */
bool connection_is_gone(const struct connection *c);

/* Sets whether the end of the server waits for it. */
void connection_set_busy(struct connection *c, bool is_busy);

/* Closes it. Its handler is called later, never within this call. The client
 * gets what was sent only if it has that already; but at the end of the server,
 * the kernel goes on sending. */
void connection_kill(struct connection *c);

/* Reads again, waiting bytes first: in this turn of the loop, but not within
 * this call. */
void connection_read_on(struct connection *c);

/* Writes bytes unchanged, and keeps those that the socket does not take. false:
 * the connection is dead, and killed. */
bool connection_write(struct connection *c, const void *data, size_t size);

/* Sends bytes of a file, as far as there is room, and awaits room if some are
 * left; no bytes may be kept back. Returns how many bytes were sent. -1: the
 * connection is dead, and killed; -2: the file cannot be read. */
ssize_t connection_send_file(struct connection *c,
                             const struct file_part *part);

/* Lets the kernel take 2 MB for the client instead of UNSENT_MAX, until
 * connection_narrow returns true. Bytes that wait in the kernel leave when the
 * client acknowledges others, and cost this thread nothing more. With
 * UNSENT_MAX this thread sends nearly all packets of an answer from a file:
 * 160 to 210 of 12 MB to local clients that read fast, where 40 to 170 were
 * counted with 2 MB.
 *
 * The waiting bytes belong to the page cache, yet the kernel cannot drop them,
 * and counts them as memory of TCP (tcp_mem). So only 16 connections of the
 * server are widened at a time (32 MB). This function changes nothing if so
 * many are. Silent clients can hold all those places, and the answers to others
 * then cost more CPU; nothing else changes for them. */
void connection_widen(struct connection *c);

/* Takes that back. Returns false while the kernel still holds more than
 * UNSENT_MAX for the client: to be called again when there is room. */
MUST_CHECK bool connection_narrow(struct connection *c);

/* True if bytes are kept back, so that nothing more should be written. */
bool connection_is_choked(const struct connection *c);

/* Makes the loop call the phase's `send` when there is room and nothing is kept
 * back: in a later turn of the loop. */
void connection_await_room(struct connection *c);

/* Ends the output, and reads on for a short while, so that the client can read
 * its answer: a socket that is closed with unread bytes is reset, and sent
 * bytes may be lost. */
void connection_linger(struct connection *c);

/* Reads the waiting bytes of a connection that was in service->ready. */
void connection_proceed(struct connection *c);

/* Once a second, and now and then without a deadline: counts the bytes in the
 * kernel, and calls the phase's check. */
void connection_check(struct connection *c, int64_t now_us);

/* For the checks of phases */

/* Closes a connection that is behind its deadline, unless bytes have come that
 * nobody has read yet. */
void connection_check_deadline(struct connection *c, int64_t now_us);

/* Closes the connection if the client has ended it; false: it did. */
bool connection_check_peer(struct connection *c);

/* Closes the connection if the client takes too few bytes. */
void connection_check_sending(struct connection *c, int64_t now_us);

/* False: too few bytes of a body come; counts the connection as slow. */
MUST_CHECK bool connection_check_receiving(struct connection *c,
                                           int64_t now_us);

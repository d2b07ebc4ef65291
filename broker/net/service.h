/*
 * service.h - the server and its service threads: the loop and the data of
 * each.
 *
 * For this folder only. Everything in a struct service belongs to its thread,
 * but service_end writes the end before it posts it.
 *
 *     loop --+-- descriptors  listeners, connections
 *            +-- on_wake      service_wake, the end of accepting
 *            +-- tasks        service_post, the end
 *            +-- on_turn      before each sleep: what was put off, the end
 *            +-- alarms       once a second: deadlines; on_tick; later wakes
 *            +-- worker pool  service_work
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/thread.h"
#include "broker/base/client_limits.h"
#include "broker/base/lookup.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "broker/net/unix_socket.h"
#include "proto/datetime.h"
#include "proto/http/request_head.h"

/* Room for the head of an answer, and for a body that is sent in the same
 * write. */
#define SCRATCH_SIZE (36 * 1024)

/* The most bytes of a read. A TLS record of 16 KB must fit. */
#define INPUT_SIZE 65536

/* "localhost" has two; further addresses of a name are ignored. */
#define ADDRESSES_MAX 4

struct listener {
    uv_poll_t poll;
    struct service *service;
    enum listener_kind kind;
    int fd;
    struct unix_file file; /* not of LISTENER_TCP */
    bool is_paused;        /* out of descriptors; until the next second */
};

#define LISTENERS_MAX (ADDRESSES_MAX + UNIX_SOCKETS_MAX)

/* The sockets of one service thread, one on each address. SO_REUSEPORT joins
 * those of all threads: the kernel distributes the connections, and no lock is
 * shared. Unix sockets have nothing like it: the first thread accepts their
 * connections and hands them to all threads in turn. */
struct listeners {
    struct listener all[LISTENERS_MAX];
    unsigned n;
    bool is_closed;
    int spare;           /* kept for the moment when no other is left */
    int64_t reported_us; /* when that shortage was last reported */
    unsigned next;       /* the service for the next connection of a unix
                            socket */
};

/* The target of a ticket: a slot in the service's table, and the number of its
 * use. */
struct slot {
    struct request *request; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* 0: none */
};

struct service {
    struct server *server;
    unsigned number;
    struct thread thread;

    struct loop *loop;   /* NULL: not made */
    struct alarm second; /* connection_check */
    unsigned n_seconds;  /* how often it has rung */
    struct alarm tick;   /* on_tick */
    struct alarm wake;   /* service_wake_later */
    struct listeners listeners;

    const struct phase *first_phase; /* of each connection: connection.h */

    /* Each connection is in one of these: those that wait for a request,
     * longest first; others that connection_check examines; and streams without
     * deadlines. */
    struct list heads;
    struct list timed;
    struct list untimed;
    struct list ready; /* connections that go on in this turn */

    /* Connections that the end waits for: connection_set_busy. */
    unsigned n_busy;

    atomic_bool is_end_asked; /* service_end; see server.c, "The end" */
    struct task end;          /* posted by it */
    struct alarm late_end;    /* the end of the wait, at cut_at_us */
    int64_t cut_at_us;        /* steady clock */
    bool is_ending;
    bool is_cut; /* at the end: all connections have been killed */

    struct slot *slots; /* the first one is never used */
    uint32_t n_slots;
    uint32_t n_requests; /* fewer than slots: request_ticket never fails */
    uint32_t free_slot;

    char id[REQUEST_ID_SIZE + 1]; /* of requests: the digits of the thread, then
                             others from the start */
    uint64_t next_id;             /* of the digits that count */

    char date[HTTPDATE_SIZE]; /* the Date header; "": none yet */
    int64_t date_of;          /* its second */
    char scratch[SCRATCH_SIZE];
    struct request_head head; /* of the request in on_request */
    char input[INPUT_SIZE];   /* bytes of one read */
};

struct server {
    struct server_options options;
    struct tls *tls; /* NULL: none */
    struct clients *clients;
    struct clients unlimited; /* used if the options have none */
    unsigned port;
    int fd_end; /* descriptors from this one on are for the broker's own files,
                   not for connections */
    unsigned n_services;
    atomic_uint n_widened;   /* see connection_widen */
    atomic_bool is_stopping; /* no connection is accepted, and requests are
                                refused */
    struct service services[];
};

/* Makes loop and listeners, but no thread. After a failure server_open frees
 * the rest. */
MUST_CHECK enum status service_init(struct service *service,
                                    struct server *server, unsigned number,
                                    const struct lookup_answer *addresses,
                                    struct problem *why);

/* Lets the thread end, at `cut_at_us` at the latest. Runs earlier tasks first,
 * and waits for the requests that they start. A second call does nothing. */
void service_end(struct service *service, int64_t cut_at_us);

/* listener.c */

/* Finds the addresses of `host` to listen on, and if *port is 0 a port that is
 * free on all of them. */
MUST_CHECK enum status addresses_find(struct lookup_answer *a, const char *host,
                                      unsigned *port, struct problem *why);

/* Listens on `addresses` on the service's loop; the first service also listens
 * on the unix sockets. */
MUST_CHECK enum status listeners_open(struct service *service,
                                      const struct lookup_answer *addresses,
                                      struct problem *why);

/* Accepts again after a pause. */
void listeners_resume(struct service *service);

/* Removes the files of unix sockets. May be repeated. */
void listeners_close(struct service *service);

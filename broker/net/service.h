/*
 * service.h - one service thread: its loop and its data.
 *
 * For this folder only. Everything in a struct service belongs to its thread,
 * except the members under "Other threads".
 *
 *     uv_loop --+-- poll         listeners, connections
 *               +-- async        wakes, posted tasks, the end
 *               +-- prepare      before each sleep: what was put off, the end
 *               +-- check        after each round: what was put off
 *               +-- timer        once a second: deadlines
 *               +-- worker pool  service_work
 */
#ifndef BROKER_NET_SERVICE_H
#define BROKER_NET_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/jobs.h"
#include "base/list.h"
#include "base/thread.h"
#include "broker/base/client_limits.h"
#include "broker/net/listener.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "proto/httpdate.h"
#include "proto/request_head.h"

/* Room for the head of an answer, and for a body that is sent in the same
 * write. */
#define SCRATCH_SIZE (36 * 1024)

/* The most bytes of a read. A TLS record of 16 KB must fit. */
#define INPUT_SIZE 65536

struct tls;

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

    uv_loop_t loop;
    uv_async_t async;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t timer;
    uv_timer_t end_timer;  /* for the end of the wait */
    uv_timer_t tick_timer; /* on_tick */
    uv_timer_t wake_timer; /* service_wake_later */
    struct listeners listeners;

    /* Each connection is in one of these: those that wait for a request,
     * longest first; others that connection_check examines; and streams without
     * deadlines. */
    struct list heads;
    struct list timed;
    struct list untimed;
    struct list ready; /* connections: connection_set_ready */

    /* Connections that the end waits for: connection_set_busy. */
    unsigned n_busy;

    struct jobs jobs;
    bool has_loop;  /* the loop and its handles were made */
    bool is_ending; /* service_end was called; see service.c, "The end" */
    bool is_cut;    /* at the end: all connections have been killed */

    struct slot *slots; /* the first one is never used */
    uint32_t n_slots;
    uint32_t free_slot;

    char date[HTTPDATE_SIZE]; /* service_date's; "": none yet */
    int64_t date_of;          /* its second */
    char scratch[SCRATCH_SIZE];
    struct request_head head; /* of the request in on_request */
    char input[INPUT_SIZE];   /* bytes of one read */

    /* Other threads */

    atomic_bool is_wanted; /* service_wake has asked, on_wake not yet run */
    pthread_mutex_t mutex; /* protects all below */
    struct list mailbox;
    bool is_ended; /* the async handle must not be used any more */
    bool is_end_asked;
    int64_t cut_at_us; /* steady clock: the latest end */
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

/* Makes loop and listeners, but no thread. After a failure call service_fini,
 * too. */
MUST_CHECK enum status service_init(struct service *service,
                                    struct server *server, unsigned number,
                                    const struct addresses *addresses,
                                    struct problem *why);

MUST_CHECK enum status service_start(struct service *service,
                                     struct problem *why);

/* Lets the thread end, at `cut_at_us` at the latest. Runs earlier tasks first,
 * and waits for the requests that they start. */
void service_end(struct service *service, int64_t cut_at_us);

/* Waits for the end of the thread. */
void service_join(struct service *service);

/* Frees the rest. No thread that opens files may run any more. */
void service_fini(struct service *service);

/* The Date header of this second; lent until the next call. */
const char *service_date(struct service *service);

/* Wakes the service's loop. Any thread. */
void service_poke(struct service *service);

#endif

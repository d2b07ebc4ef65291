/*
 * service.h - one service thread: its loop, and what it keeps.
 *
 * For this folder only. Everything in a struct service belongs to its thread,
 * except what stands under "Other threads".
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

#include "base/list.h"
#include "base/thread.h"
#include "broker/base/clients.h"
#include "broker/net/jobs.h"
#include "broker/net/listener.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "proto/httpdate.h"
#include "proto/request_head.h"

/* The head of an answer and a body that goes along with it in one write. */
#define SCRATCH_SIZE (36 * 1024)

/* Read at once. Over TLS a record of 16 KB has to have room. */
#define INPUT_SIZE 65536

struct tls;

/* What a ticket names: a place in the service's table, and which use of it. */
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
    uv_timer_t end_timer;  /* the end waits no longer */
    uv_timer_t tick_timer; /* on_tick */
    uv_timer_t wake_timer; /* service_wake_later */
    struct listeners listeners;

    /* All connections are in one of these: those that wait for a request, since
     * longest first; others that connection_check looks at; and the streams,
     * which have no deadlines. */
    struct list heads;
    struct list timed;
    struct list untimed;
    struct list ready; /* see connection_set_ready */

    /* Connections that the end waits for: see connection_set_busy. */
    unsigned n_busy;

    struct jobs jobs;
    bool has_loop;  /* the loop and its handles were made */
    bool is_ending; /* service_end was called; see service.c, "The end" */
    bool is_cut;    /* at the end: all connections have been killed */

    struct slot *slots; /* the first is never used */
    uint32_t n_slots;
    uint32_t free_slot;

    char date[HTTPDATE_SIZE]; /* see service_date; "": none yet */
    int64_t date_of;          /* the second that it names */
    char scratch[SCRATCH_SIZE];
    struct request_head head; /* of the request at hand, in on_request */
    char input[INPUT_SIZE];   /* bytes of one read */

    /* Other threads */

    atomic_bool is_wanted; /* service_wake has asked, on_wake not yet run */
    pthread_mutex_t mutex; /* over all below */
    struct list mailbox;
    bool is_ended; /* the async handle must not be used any more */
    bool is_end_asked;
    int64_t cut_at_us; /* steady clock: no longer than this */
};

struct server {
    struct server_options options;
    struct tls *tls; /* NULL: none */
    struct clients *clients;
    struct clients unlimited; /* where the options have none */
    unsigned port;
    int fd_end; /* no connection has this descriptor, or one above it: the rest
                   is kept for the broker's own files */
    unsigned n_services;
    atomic_uint n_widened;   /* see connection_widen */
    atomic_bool is_stopping; /* nothing new is accepted or answered */
    struct service services[];
};

/* Makes loop and listeners; the thread is not started yet. On failure
 * service_fini is still due. */
MUST_CHECK enum status service_init(struct service *service,
                                    struct server *server, unsigned number,
                                    const struct addresses *addresses,
                                    struct problem *why);

MUST_CHECK enum status service_start(struct service *service,
                                     struct problem *why);

/* Lets the thread end, not later than `cut_at_us`. What was posted before runs
 * first, and counts: whoever it makes busy is waited for. */
void service_end(struct service *service, int64_t cut_at_us);

/* Waits for the end of the thread. */
void service_join(struct service *service);

/* Frees what is left. No thread that opens files runs any more. */
void service_fini(struct service *service);

/* The Date header of this second; lent until the next call. */
const char *service_date(struct service *service);

/* Makes the service look at what has changed. Any thread. */
void service_poke(struct service *service);

#endif

/*
 * callbacks.h - where webhooks arrive: callbacks of the loopback network, all
 * in this process. They confirm every verification of intent, and answer each
 * complete delivery with 204; sick ones never answer.
 *
 * Each callback is a host of its own, as the limits of a sender go by host, or
 * some share one: http://127.1.0.7:PORT/cb/7.
 */
#ifndef TESTS_BENCH_CALLBACKS_H
#define TESTS_BENCH_CALLBACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/bench/histogram.h"

#define CALLBACK_URL_SIZE 64

struct callbacks {
    int epoll; /* its user's: listener and connections are in it */
    int listener;
    unsigned port;
    unsigned n, n_hosts;
    unsigned sick_every; /* 0: none is sick */
    uint64_t *last;      /* of each callback: the last entry it got; 0: none */
    struct arrival **arrivals; /* by descriptor */
    uint64_t n_verified;

    /* Of the healthy ones, since callbacks_reset. */
    uint64_t n_deliveries, n_entries, n_bytes, n_lost, n_repeated;
    struct histogram delay; /* from post to receipt, of the first entry */
    uint64_t last_ns;       /* of the latest receipt */

    uint64_t n_left; /* deliveries to sick ones: not answered */
};

void callbacks_open(struct callbacks *c, int epoll, unsigned n,
                    unsigned n_hosts, unsigned sick_every);
void callbacks_close(struct callbacks *c);

/* How many of them are healthy. */
unsigned callbacks_healthy(const struct callbacks *c);

void callbacks_url(const struct callbacks *c, unsigned number,
                   char to[CALLBACK_URL_SIZE]);

/* Handles an event that epoll reports for a descriptor (event.data.fd) that is
 * not the user's own.
 */
void callbacks_on_event(struct callbacks *c, int fd);

/* Forgets the figures so far. */
void callbacks_reset(struct callbacks *c);

#endif

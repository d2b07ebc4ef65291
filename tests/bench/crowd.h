/*
 * crowd.h - many subscribers, a few publishers, one thread.
 *
 *     crowd_open(c, ...)          the publishers
 *     crowd_join(c, 1000, ...)    subscribers
 *     crowd_publish(c, &pace)     posts for a while
 *     crowd_drain(c)              until everybody has everything
 *     crowd_close(c)
 */
#ifndef TESTS_BENCH_CROWD_H
#define TESTS_BENCH_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/publisher.h"
#include "tests/bench/subscriber.h"

/* One in so many subscribers is slow, in a crowd that has slow ones. */
#define CROWD_SLOW_EVERY 20

struct pace {
    double seconds;
    double rate;          /* publishes a second; 0: as fast as delivered */
    unsigned outstanding; /* with rate 0: publishes not yet delivered to all */
};

struct crowd {
    int epoll;
    unsigned port;
    const struct protocol *protocol;
    struct publisher publishers[SUBSCRIBER_PUBLISHERS_MAX];
    unsigned n_publishers;
    struct subscriber *subscribers;
    unsigned n_subscribers;
    unsigned n_closed;     /* by the server */
    uint64_t of_closed;    /* entries that the closed ones had received */
    struct receipts quick; /* received by subscribers that always read */
    struct receipts slow;
    struct histogram delay; /* from post to receipt, of the quick ones */
    uint64_t posted;        /* entries since crowd_reset */
    uint64_t last_ns;       /* of the latest receipt or answer */

    /* Called now and then; may be NULL. */
    void (*on_tick)(struct crowd *crowd, void *user);
    void *user;
};

void crowd_open(struct crowd *c, unsigned port, const struct protocol *protocol,
                unsigned publishers, enum form form, size_t entries,
                size_t bytes);
void crowd_close(struct crowd *c);

/* `n` more subscribers; every CROWD_SLOW_EVERYth is slow if `has_slow`. */
void crowd_join(struct crowd *c, unsigned n, const char *subprotocol,
                bool has_slow);

/* The slow ones stop reading, or go on. */
void crowd_stall(struct crowd *c, bool is_stalled);

/* Forgets the figures so far. Call it when no request and no delivery is under
 * way. */
void crowd_reset(struct crowd *c);

/* Reads for so long, without publishing. */
void crowd_rest(struct crowd *c, double seconds);

void crowd_publish(struct crowd *c, const struct pace *pace);

/* Reads until everybody has got everything, or nothing has come for 5 s. */
void crowd_drain(struct crowd *c);

/* Entries that did not arrive, including those for subscribers whom the server
 * closed. */
uint64_t crowd_lost(const struct crowd *c);

#endif

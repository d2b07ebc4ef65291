/*
 * round.h - unacknowledged messages on their way into the log.
 *
 *     round_add ... --> round_settle: ingest of each, one wake, wait for all
 *                          ^                     |
 *                          |                     +--> on_settled, in order
 *                          +-- a passing failure: from that message on again
 *
 * The log commits them in the order of their arrival, whatever their sets: the
 * posts of a pass are one line (log/post.h), and a pass ends at the first one
 * that cannot be handed to the log. If a message failed for a passing reason,
 * no later one is settled before it.
 *
 * After a pass that committed messages the next one follows at once; else after
 * a pause. A message that waits for another one with the same key, or for
 * memory that others hold, goes with the next pass, without a pause.
 *
 * Memory: the messages given to round_add. Its caller settles when
 * round_is_full.
 *
 * The client's thread, unless stated otherwise.
 */
#ifndef BROKER_BRIDGE_ROUND_H
#define BROKER_BRIDGE_ROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/bridge/held.h"
#include "broker/log/post.h"
#include "proto/problem.h"
#include "proto/status.h"

/* The caller settles a round that has so much, even if more can be read: the
 * log commits so much without effort, and the memory is bounded. */
#define ROUND_MESSAGES 1000
#define ROUND_BYTES    ((size_t)16 << 20)

/* Pauses after passes that committed nothing. */
#define ROUND_PAUSE_US     50000
#define ROUND_PAUSE_MAX_US 5000000

struct round {
    struct registry *registry;
    struct list messages; /* struct held */
    size_t n, bytes;
    struct post_line line;

    /* A message is settled: it is committed (h->rc is 0), or failed for good.
     * held_key and the ingest (NULL if there is none) are valid for the
     * call. */
    void (*on_settled)(struct held *h, void *user);

    /* No message can be settled for this reason: the round pauses, and perhaps
     * pauses again. */
    void (*on_stuck)(const struct problem *why, void *user);
    void *user;

    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t changed;
    unsigned pending; /* the log's */
    bool is_ending;
};

MUST_CHECK enum status round_init(struct round *r, struct registry *registry,
                                  struct problem *why);
void round_fini(struct round *r);

/* Makes the round stop after its present pass. Any thread. */
void round_end(struct round *r);

void round_add(struct round *r, struct held *h); /* the round owns `h` from now
                                                    on */
bool round_is_full(const struct round *r);
bool round_is_empty(const struct round *r);

/* Settles all messages. After a passing failure it gives up when its pauses add
 * up to `patience_us`, or at once after round_end: `why` has the reason, and
 * unsettled messages stay in the round. */
MUST_CHECK enum status round_settle(struct round *r, int64_t patience_us,
                                    struct problem *why);

/* Frees all messages of the round. */
void round_forget(struct round *r);

#endif

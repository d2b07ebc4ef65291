/*
 * round.h - the messages that were received and not acknowledged, on their way
 * into the log.
 *
 *     round_add ... --> round_settle: ingest of each, one wake, wait for all
 *                          ^                     |
 *                          |                     +--> on_settled, in order
 *                          +-- a passing failure: from that message on again
 *
 * They are committed in the order in which they came, whatever their sets: the
 * posts of a pass are one line (log/post.h), and a pass ends where one cannot
 * be handed to the log. Nothing behind a message that failed for a passing
 * reason is settled before it.
 *
 * As long as some are committed a pass follows the other; else there is a pause
 * before the next one. A message that waits for another one (of the same key)
 * or for the memory that others hold goes with the next pass, without a pause.
 *
 * Memory: what round_add was given. Its caller settles when round_is_full.
 *
 * The client's thread but what says otherwise.
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

/* A round is settled when it has as much, however much there is to be read: the
 * log takes so much in one commit without effort, and memory is bounded. */
#define ROUND_MESSAGES 1000
#define ROUND_BYTES    ((size_t)16 << 20)

/* Pauses after passes in which nothing was committed. */
#define ROUND_PAUSE_US     50000
#define ROUND_PAUSE_MAX_US 5000000

struct round {
    struct registry *registry;
    struct list messages; /* struct held */
    size_t n, bytes;
    struct post_line line;

    /* A message is settled: h->rc is 0, it is committed, or no passing failure;
     * held_key and the ingest (NULL if it has none) are there for the call. */
    void (*on_settled)(struct held *h, void *user);

    /* Nothing goes on for this reason: there is a pause, and then perhaps
     * another one. */
    void (*on_stuck)(const struct problem *why, void *user);
    void *user;

    pthread_mutex_t mutex; /* what follows; the log thread's, too */
    pthread_cond_t changed;
    unsigned pending; /* posts that the log has */
    bool is_ending;
};

MUST_CHECK enum status round_init(struct round *r, struct registry *registry,
                                  struct problem *why);
void round_fini(struct round *r);

/* From now on one pass has to do. Any thread. */
void round_end(struct round *r);

void round_add(struct round *r, struct held *h); /* it is the round's then */
bool round_is_full(const struct round *r);
bool round_is_empty(const struct round *r);

/* Settles all of it. A passing failure: after `patience_us` in which pauses
 * were made, or at once if the round is to end, it gives up, `why` says why;
 * the messages that are not settled stay in it. */
MUST_CHECK enum status round_settle(struct round *r, int64_t patience_us,
                                    struct problem *why);

/* Lets go of all that is in it. */
void round_forget(struct round *r);

#endif

/*
 * key_shares.h - how many of the remembered idempotency keys each client has
 * brought: a client with its share of them leaves room for the others.
 *
 * They count since the engine last began to collect keys anew
 * (engine_ops.keys_since), and in this process: a start forgets who brought the
 * keys. No client can restart the broker, and the engine's own limit holds.
 *
 * The log thread's.
 */
#ifndef BROKER_LOG_KEY_SHARES_H
#define BROKER_LOG_KEY_SHARES_H

#include <stdint.h>

#include "base/map.h"
#include "broker/log/engine.h"
#include "broker/log/post.h"
#include "proto/status.h"

/* All zero: empty. */
struct key_shares {
    struct map by_client; /* of struct key_share */
    int64_t since_us;
};

/* Counts the key of a post that is about to be placed in a commit at `at_us`.
 * STATUS_LIMITED, also in the post: its client has its share. STATUS_MEMORY,
 * likewise. */
MUST_CHECK enum status key_shares_take(struct key_shares *shares,
                                       struct engine *engine, int64_t at_us,
                                       struct post *post);

/* The post was not committed. Allowed if its key was not counted. */
void key_shares_give(struct post *post);

void key_shares_fini(struct key_shares *shares);

#endif

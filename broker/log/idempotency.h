/*
 * idempotency.h - idempotency: a post with a key is kept once, however often it
 * comes.
 *
 * A source that lost the answer to its post does not know whether it was kept.
 * If the post has a key, the source may post it again: the log does not keep
 * the repeat, and answers it with the outcome of the first.
 *
 *     take --> idempotency_judge --+--> IDEMPOTENCY_NEW: it is placed, and
 *                                  |    idempotency_add notes its key, in the
 *                                  |    transaction of its batches
 *                                  +--> IDEMPOTENCY_ROUND: it is answered after
 *                                  |    the commit, as its first, which is in
 *                                  |    this round
 *                                  +--> IDEMPOTENCY_SETTLED: it is answered at
 *                                       once, from the engine
 *
 * What makes it certain: the log thread alone places posts, and it looks first
 * among the keys of the round at work, then among those the engine keeps, so
 * nothing can come in between. The key is committed with the batches, all or
 * nothing: after a crash both are there or neither. A refused round forgets
 * its keys with its batches: a post that was refused leaves no key.
 *
 * A key belongs to one log of a set and to one owner: the engine stores a
 * digest of the epoch, the key and the owner's name. So a set that is made
 * again has none of the earlier keys, and the holder of a token cannot find out
 * which keys others use, nor take them. The digest of the entries distinguishes
 * a repeat from another post that took the same key.
 *
 * Each event of a post of CloudEvents has a key of its own, made of its source
 * and id (post_event). The log places the events that it does not have, and
 * passes over the others: all new ones of a post are kept, or none. If it has
 * all, the post is a repeat. Plain keys and those of events never collide.
 *
 * The log thread's.
 */
#pragma once

#include "base/map.h"
#include "broker/log/act.h"
#include "broker/log/engine.h"
#include "broker/log/post.h"

/* So long is a key kept at least. */
#define IDEMPOTENCY_KEPT_US ((int64_t)24 * 3600 * 1000000)

/* So many keys are kept of IDEMPOTENCY_KEPT_US, of all sets: 46 posts a second,
 * day and night. A million are 130 MB of tidings.db (measured); until they have
 * gone there are twice as many. */
#define IDEMPOTENCY_KEYS_MAX 4000000

/* What a key adds to a transaction: a page, somewhere. Of 16 KiB in databases
 * of earlier programs (measured: 17.7 KB of WAL, 40 us, among a million), now
 * of 2. */
#define IDEMPOTENCY_COMMIT_BYTES 16384

enum idempotency_verdict {
    IDEMPOTENCY_NEW,
    IDEMPOTENCY_ROUND,
    IDEMPOTENCY_SETTLED
};

/* Looks at a post with keys, before it is placed, and notes which events are
 * known. Unless a key is new, writes the outcome into the post: that of the
 * first, STATUS_INVALID (other entries had the key), STATUS_BUSY (no room for
 * more keys) or the failure of the engine. */
MUST_CHECK enum idempotency_verdict idempotency_judge(const struct acts *acts,
                                                      struct engine *engine,
                                                      struct post *post);

/* Notes the outcome of a post that was new, and placed; or of that event of it.
 * STATUS_MEMORY. */
MUST_CHECK enum status idempotency_add(struct acts *acts,
                                       const struct post *post,
                                       const struct post_event *event);

/* Shares: how many of the remembered keys each client has brought. A client
 * with its share of them leaves room for the others.
 *
 * They count since the engine last began to collect keys anew
 * (engine_ops.keys_since), and in this process: a start forgets who brought the
 * keys. No client can restart the broker, and the engine's own limit holds. */

/* All zero: empty. */
struct idempotency_shares {
    struct map by_client; /* of struct key_share */
    int64_t since_us;
};

/* Counts the new keys of a post that is about to be placed in a commit at
 * `at_us`. STATUS_LIMITED, also in the post: its client has its share. */
MUST_CHECK enum status idempotency_take(struct idempotency_shares *shares,
                                        struct engine *engine, int64_t at_us,
                                        struct post *post);

/* The post was not committed. Allowed if its keys were not counted. */
void idempotency_give(struct post *post);

void idempotency_fini(struct idempotency_shares *shares);

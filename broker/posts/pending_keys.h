/*
 * pending_keys.h - the posts with a key at work: those being read or committed.
 *
 * A post takes its key when its headers are there, before its body: a repeat
 * that comes meanwhile gets 409 before the broker reads its body. So the answer
 * does not depend on which body arrives faster, and a large post with repeats
 * takes memory once. The post gives the key back as soon as the log has
 * answered, the broker has refused it, or its connection has ended.
 *
 * A connection can also die silently while its source opens another one: if a
 * post is not whole, and no byte came for PENDING_KEYS_SILENCE_US, a repeat
 * takes the key over. If the old body goes on after all, it does no harm.
 *
 * This is a courtesy: the log guarantees that a post is kept once
 * (idempotency.h). The table is only in memory, and ends with the process, like
 * the posts.
 *
 * Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"

/* Longer than a connected source is silent in the middle of a body. */
#define PENDING_KEYS_SILENCE_US 10000000

/* Zero, but for the mutex. */
struct pending_keys {
    pthread_mutex_t mutex;
    struct map posts; /* by key; those of all sets */
};

/* Part of the post's struct. All zero: not at work. */
struct pending_keys_post {
    struct map_node node;
    struct slice set, key, owner; /* lent until pending_keys_end */
    bool has_begun;               /* for the owner of the post */
    bool is_listed; /* under the mutex, as node: a repeat takes it off */

    /* By clock_steady_us; INT64_MAX: it is whole. Relaxed: a late look makes a
     * repeat ask once more. */
    _Atomic(int64_t) heard_us;
};

void pending_keys_fini(struct pending_keys *r);

/* false: another post of the same set with the same key of the same owner is at
 * work. */
bool pending_keys_begin(struct pending_keys *r, struct pending_keys_post *post);

/* Note that some of the body came, or all. The thread that reads it. */
void pending_keys_heard(struct pending_keys_post *post);
void pending_keys_whole(struct pending_keys_post *post);

/* Ends the post. Harmless if it is not at work. */
void pending_keys_end(struct pending_keys *r, struct pending_keys_post *post);

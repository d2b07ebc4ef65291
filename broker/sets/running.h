/*
 * running.h - the posts with a key that are at work: read or committed.
 *
 * A key is taken when a post's headers are there, not only when its body is: a
 * repeat that comes meanwhile is told to ask again (409) before its own body is
 * read. So what it is told does not depend on who is read faster, and a source
 * that repeats a large post holds it in memory once. It is given back as soon
 * as the log has answered, the post was refused, or its connection is gone.
 *
 * A connection can also be dead without a word, and its source back by another
 * one: from a post that is not whole, and of which nothing was heard for
 * RUNNING_SILENCE_US, a repeat takes the key over. Should its body go on after
 * all, no harm is done.
 *
 * This is a courtesy: that a post is kept once is the log's promise (keys.h).
 * It is memory alone, and ends with the process, as do the posts.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_RUNNING_H
#define BROKER_SETS_RUNNING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/slice.h"

/* Longer than a source with a connection is silent in the middle of a body. */
#define RUNNING_SILENCE_US 10000000

/* Lists that the posts at work are spread over. */
#define RUNNING_LISTS 256

struct running {
    pthread_mutex_t mutex;
    struct list lists[RUNNING_LISTS];
};

/* Lives inside the post's struct: there are as many as posts. All zero: not at
 * work. */
struct running_post {
    struct list node;      /* the mutex's: its neighbours change it, too */
    struct slice set, key; /* lent until running_end */
    bool has_begun;        /* whoever has the post asks this, not the node */

    /* By clock_steady_us; INT64_MAX: it is whole. Relaxed: a late look makes a
     * repeat ask once more. */
    _Atomic(int64_t) heard_us;
};

void running_init(struct running *r);
void running_fini(struct running *r);

/* false: another post of the same set with the same key is at work. */
bool running_begin(struct running *r, struct running_post *post);

/* Some of its body came; all of it. The thread that reads it. */
void running_heard(struct running_post *post);
void running_whole(struct running_post *post);

/* Harmless if it is not at work. */
void running_end(struct running *r, struct running_post *post);

#endif

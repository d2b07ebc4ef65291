/*
 * posts.h - posts and batches of a test's own, and waiting for the log's
 * answer.
 *
 *     posts_begin -> posts_add ... -> (log_submit) -> posts_wait -> posts_end
 *                                 \-> posts_batch ---------------> posts_end
 */
#ifndef TESTS_SUPPORT_POSTS_H
#define TESTS_SUPPORT_POSTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/batch.h"
#include "broker/log/post.h"

/* The event time of entry `seq` in a batch of posts_batch. */
#define POSTS_TIME(seq) (INT64_C(1775067000000000) + (int64_t)(seq)*1000)

/* The epoch of the logs that posts_chain makes. */
#define POSTS_EPOCH "0123456789abcdef"

struct posted {
    struct post post;
    struct act act;  /* of a post of kind POST_ACT */
    size_t capacity; /* of fragments */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};

void posts_begin(struct posted *p, enum post_kind kind, struct log_set *set);

/* The same for a post of kind POST_ACT. */
void posts_begin_act(struct posted *p, enum act_kind kind, struct log_set *set);

/* Adds a change of http://example.com/r/NUMBER, without a source's time. Links
 * are added until the fragment has at least `weight` bytes. */
void posts_add(struct posted *p, unsigned number, size_t weight);

/* Adds `n` light ones, numbered from `from` on. */
void posts_add_many(struct posted *p, unsigned from, unsigned n);

/* Waits for post.done; returns post.status. */
enum status posts_wait(struct posted *p);
bool posts_is_done(struct posted *p);

void posts_end(struct posted *p);

/* Returns the added changes as a batch after entry `after`, of times
 * POSTS_TIME. */
struct batch *posts_batch(const struct posted *p, uint64_t after,
                          const struct digest *before, atomic_size_t *account);

/* `n` batches of `each` light entries that follow each other from entry 1 on,
 * in a log of epoch POSTS_EPOCH. */
void posts_chain(struct batch **batches, size_t n, unsigned each);

#endif

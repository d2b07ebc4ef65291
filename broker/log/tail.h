/*
 * tail.h - the end of a set's log in memory: its head and its last batches.
 *
 * One publisher, the log thread; many readers. Everything of a tail is guarded
 * by its mutex, held for a copy of the head and a reference to a batch, never
 * for I/O. The batches of all tails together are bounded in bytes: the oldest
 * of any set goes first, so a busy set cannot push out more than the settings
 * allow, and an idle set costs nothing.
 *
 * No wake is lost: a publisher changes the head and calls the watches under one
 * hold of the mutex. A reader that adds a watch and then looks at the head
 * either sees the new head, or is woken.
 */
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "broker/log/batch.h"
#include "broker/log/head.h"

struct log_view;

struct tail {
    pthread_mutex_t mutex;
    struct head head;
    struct batch **ring; /* `count` batches from `start` on, seqs consecutive */
    size_t capacity, start, count;
    struct list watches;
};

/* The tails of all sets; the log thread's. At first all is zero but `max`; the
 * owner frees the queue. */
struct tails {
    struct tail **queue; /* the tails of all batches, oldest batch first */
    size_t capacity, start, count;
    size_t bytes; /* weight of the batches in all rings */
    size_t max;
    atomic_size_t forms; /* bytes of forms, kept by any batch in memory */
};

void tail_init(struct tail *t);
void tail_fini(struct tail *t);

/* Makes `n` batches and the head they lead to visible at once, and wakes. Takes
 * over the references. Log thread. Without memory for the ring the batches are
 * dropped from memory only: readers find them in the store. */
void tail_publish(struct tails *all, struct tail *t, struct batch **batches,
                  size_t n, const struct head *head);

/* Drops the batches of `t` from memory. Log thread. */
void tail_empty(struct tails *all, struct tail *t);

/* Copies the head. Any thread. */
void tail_head(struct tail *t, struct head *head);

/* The batch that holds entry `after` + 1, with a reference, or NULL; *last is
 * the head's last at that moment. Any thread. */
struct batch *tail_find(struct tail *t, uint64_t after, uint64_t *last);

/* See log_view_open. Any thread. */
void tail_view(struct tail *t, uint64_t after, uint64_t upto, size_t max_bytes,
               struct log_view *view);

/* The first batch that ends later than `us`, with a reference, or NULL: no
 * batch here does, or earlier ones could. Any thread. */
struct batch *tail_find_time(struct tail *t, int64_t us);

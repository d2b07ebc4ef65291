/*
 * orders.h - those who wait for a build: of a kind, of a set, at a position or
 * behind it.
 *
 *     submit --> [taken, waiting] --> done: answered, or refused
 *
 * Archive thread, orders_submit excepted.
 */
#ifndef BROKER_ARCHIVE_ORDERS_H
#define BROKER_ARCHIVE_ORDERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/log/generations.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Somebody waits. */
struct renewal_order {
    struct list node; /* the orders' */
    struct set *set;
    enum generation_kind kind;
    uint64_t wanted;  /* the seq that it is to stand for, or a later one */
    int64_t until_us; /* of the steady clock: no longer than this */

    /* The outcome. STATUS_AGAIN: it goes on, but the time is over; STATUS_GONE:
     * the set was removed, or its state is not whole; STATUS_NOT_FOUND: content
     * that it would have is not there; STATUS_BUSY: a full disk;
     * STATUS_STOPPED. Else `generation` is current. */
    enum status status;
    struct problem why;
    struct generation generation;
    uint64_t missing; /* STATUS_NOT_FOUND: the content of so many resources */
    void (*done)(struct renewal_order *order); /* archive thread */
};

struct orders {
    struct thread *thread; /* the archive thread: to be woken; lent */

    pthread_mutex_t mutex; /* over both */
    struct list submitted; /* those that nobody has looked at yet */
    bool is_ended;

    struct list waiting; /* the others */
};

void orders_init(struct orders *orders, struct thread *thread);

/* Hands over an order, which is the orders' until `done`. Any thread.
 * STATUS_STOPPED: nothing was taken. */
MUST_CHECK enum status orders_submit(struct orders *orders,
                                     struct renewal_order *order);

/* Are there any new ones? They wait from then on. */
bool orders_take(struct orders *orders);

/* Answers those that need not wait any more. */
void orders_answer(struct orders *orders);

/* Refuses those of a kind of a set. */
void orders_refuse(struct orders *orders, const struct set *set,
                   enum generation_kind kind, enum status rc, uint64_t missing,
                   const struct problem *why);

/* Refuses all, and those to come. */
void orders_end(struct orders *orders);

/* The first one, and the one behind it; NULL: there is none. */
struct renewal_order *orders_next(const struct orders *orders,
                                  const struct renewal_order *order);

#endif

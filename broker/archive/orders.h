/*
 * orders.h - orders for a build: of a kind, of a set, at a position or behind
 * it.
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
#include "broker/log/head.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

/* One order. */
struct renewal_order {
    struct list node; /* the orders' */
    struct set *set;
    enum generation_kind kind;
    uint64_t wanted;  /* the build must stand for this seq, or a later one */
    int64_t until_us; /* of the steady clock: no longer than this */

    /* The outcome. STATUS_AGAIN: the time is over, but the build goes on;
     * STATUS_GONE: the set was removed, or its state is not whole;
     * STATUS_NOT_FOUND: content for the build is missing; STATUS_BUSY: a full
     * disk; STATUS_STOPPED. Else `generation` is current. */
    enum status status;
    struct problem why;
    struct generation generation;
    uint64_t missing; /* STATUS_NOT_FOUND: the content of so many resources */
    void (*done)(struct renewal_order *order); /* archive thread */
};

struct orders {
    struct thread *thread; /* the archive thread: to be woken; lent */

    pthread_mutex_t mutex; /* over both */
    struct list submitted; /* those not taken yet */
    bool is_ended;

    struct list waiting; /* the others */
};

void orders_init(struct orders *orders, struct thread *thread);

/* Submits an order; the orders own it until `done`. Any thread. STATUS_STOPPED:
 * the order was not taken. */
MUST_CHECK enum status orders_submit(struct orders *orders,
                                     struct renewal_order *order);

/* Makes submitted orders wait. Returns true if there were any. */
bool orders_take(struct orders *orders);

/* Answers the orders that need not wait any longer. */
void orders_answer(struct orders *orders);

/* Refuses the orders for a kind of a set. */
void orders_refuse(struct orders *orders, const struct set *set,
                   enum generation_kind kind, enum status rc, uint64_t missing,
                   const struct problem *why);

/* Refuses all orders, and later ones. */
void orders_end(struct orders *orders);

/* Returns the order after `order`, or the first one for NULL; NULL at the
 * end. */
struct renewal_order *orders_next(const struct orders *orders,
                                  const struct renewal_order *order);

#endif

/*
 * catch_up_waits.h - waits until this broker's copy has all that any broker of
 * its cluster had answered or sent when the wait began (broker/log/order.h).
 *
 * A client may come from a broker that is ahead, with a position that this copy
 * does not have yet. Only the journal can say whether it will have it: so the
 * client waits, CATCH_UP_WAIT_US at most, until the copy is certain.
 *
 *     catch_up_waits_begin --> asks the journal --> [certain] --> resume(true)
 *                               |
 *                               +--- time is over, the end --> resume(false)
 *
 * One look of the journal's follower serves all who wait. They all belong to
 * one service thread; only catch_up_waits_wake is for any thread.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/log.h"
#include "broker/net/server.h"

#define CATCH_UP_WAIT_US ((int64_t)5000000)

/* A member of a struct of its owner. */
struct catch_up_wait {
    struct list node; /* removed from its list: the wait ends without a call */
    int64_t since_us; /* steady clock */
    /* Called once, later, unless the wait is cancelled. */
    void (*resume)(struct catch_up_wait *wait, bool is_certain);
};

struct catch_up_waits {
    struct log *log;
    struct list all; /* in the order in which they began */
    bool is_ending;

    /* The thread to wake; NULL: nobody waits. Acquire and release: the
     * log thread that sees the pointer also sees the service. */
    _Atomic(struct service *) service;
};

void catch_up_waits_init(struct catch_up_waits *waits, struct log *log);

/* Begins a wait. False: no wait begins any more at the end. */
MUST_CHECK bool catch_up_waits_begin(struct catch_up_waits *waits,
                                     struct service *service,
                                     struct catch_up_wait *wait);

/* Has the thread call catch_up_waits_go_on, if anybody waits. */
void catch_up_waits_wake(struct catch_up_waits *waits);

/* Resumes those whose wait is over: the copy is certain, or the time has
 * passed. After every wake, and at every tick. */
void catch_up_waits_go_on(struct catch_up_waits *waits);

/* Resumes all, and lets none begin. */
void catch_up_waits_end(struct catch_up_waits *waits);

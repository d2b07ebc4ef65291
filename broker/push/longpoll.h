/*
 * longpoll.h - requests that wait: until their set has news, or their time is
 * over; then their owner answers them. Or until this broker's copy is certain.
 *
 *     polls_wait --> rests at the head --news--> [due] --on wake--> resume
 *                         |                       ^
 *                         +-- time is over -------+
 *
 * A waiting request is a reader at the head (readers/reader.h), without
 * messages, and costs no thread. The thread resumes POLLS_AT_ONCE due requests
 * at a time, or fewer if that takes long, and then serves its other clients.
 * Time is measured in slots of POLLS_SLOT_US: a request waits up to one slot
 * longer than it asked for.
 *
 * All of it belongs to one service thread.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/log.h"
#include "broker/net/request.h"
#include "broker/push/set_readers.h"

/* How long a request may wait: as long as proxies commonly allow, and so long
 * that the cost of asking again is small. */
#define POLLS_WAIT_MAX_US ((int64_t)300 * 1000000)

/* Resumes so many requests at once, or fewer if it takes longer than
 * POLLS_TURN_US: resuming one may write a large page. */
#define POLLS_AT_ONCE 256
#define POLLS_TURN_US 5000

/* The slots are a ring; longer than the longest wait. */
#define POLLS_SLOT_US ((int64_t)125000)
#define POLLS_SLOTS   4096

/* A waiting request: a member of a struct of its owner. */
struct poll {
    struct reader reader;
    struct list timed; /* in a slot, or in the list of due requests */
    struct polls *polls;
    struct request *request;
    void (*resume)(struct poll *poll, struct request *rq);
};

/* What a request waits for. */
struct poll_wish {
    struct set *set;
    uint64_t after;
    int64_t wait_us; /* at most POLLS_WAIT_MAX_US */

    /* Called once, later. The callee owns the request and the poll again, and
     * answers or defers the request; NULL: its client has gone, or its
     * authority has ended. */
    void (*resume)(struct poll *poll, struct request *rq);
};

struct polls {
    struct list slots[POLLS_SLOTS]; /* by the end of their time */
    struct list due;
    int64_t slot; /* the first slot that was not looked at */
    size_t n;     /* waiting or due requests */
    bool is_ending;
};

/* `polls` is all zero before. */
void polls_init(struct polls *polls);

/* Lets a request wait: within on_request, or after it was resumed. false: no
 * request may wait at the end; the caller still owns it. */
MUST_CHECK bool polls_wait(struct polls *polls, struct set_readers *set_readers,
                           struct request *rq, struct poll *poll,
                           const struct poll_wish *wish);

/* Resumes due requests; after every wake of the thread. */
void polls_go_on(struct polls *polls, struct service *service);

/* Makes all requests due, and lets none wait from now on. */
void polls_end(struct polls *polls, struct service *service);

/*
 * Waits until this broker's copy has all that any broker of
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

/* `waits` is all zero before. */
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

/*
 * longpoll.h - requests that wait until their set has news, or their time is
 * over; then their owner answers them.
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

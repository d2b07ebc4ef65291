/*
 * longpoll.h - requests that wait until their set has more, or their time is
 * over; whoever let them wait answers them then.
 *
 *     polls_wait --> [place's list] --commit--> [due] --on wake--> resume
 *                         |                       ^
 *                         +------ time is over ---+
 *
 * A waiting request costs no thread and no message: it is in two lists. Those
 * that are due are resumed POLLS_AT_ONCE at a time, or fewer if that takes
 * long, and then the others of the thread get their turn. Time is measured in
 * slots of POLLS_SLOT_US: a request waits up to one of them longer than it
 * asked for.
 *
 * All of it belongs to one service thread.
 */
#ifndef BROKER_PUSH_LONGPOLL_H
#define BROKER_PUSH_LONGPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/net/request.h"
#include "broker/push/places.h"

/* How long a request may wait: as long as what stands between us and a client
 * commonly bears, and far more than it takes to make the cost of asking again
 * small. */
#define POLLS_WAIT_MAX_US ((int64_t)300 * 1000000)

/* So many at once, and none any more after so long: to resume one may be to
 * write a large page. */
#define POLLS_AT_ONCE 256
#define POLLS_TURN_US 5000

/* The slots are a ring; longer than the longest wait. */
#define POLLS_SLOT_US ((int64_t)125000)
#define POLLS_SLOTS   4096

/* What a request waits for. */
struct poll_wish {
    struct set *set;
    uint64_t after;
    int64_t wait_us; /* at most POLLS_WAIT_MAX_US */

    /* Called once, later. The request is the callee's again, to be answered or
     * deferred; NULL: its client has gone. */
    void (*resume)(struct request *rq, void *user);
    void *user;
};

struct polls {
    struct list slots[POLLS_SLOTS]; /* by the time when they are over */
    struct list due;
    int64_t slot; /* the first that has not been looked at */
    size_t n;     /* that wait or are due */
    bool is_ending;
};

void polls_init(struct polls *polls);

/* Lets a request wait: within on_request, or when it has been resumed. false:
 * nobody waits, at the end or without memory; it is still the caller's. */
MUST_CHECK bool polls_wait(struct polls *polls, struct places *places,
                           struct request *rq, const struct poll_wish *wish);

/* There is more: those of the place that asked for it are due. */
void polls_serve(struct polls *polls, struct place *place);

/* Resumes whoever is due; after every wake of the thread. */
void polls_go_on(struct polls *polls, struct service *service);

/* All are due, and nobody waits from now on. */
void polls_end(struct polls *polls, struct service *service);

#endif

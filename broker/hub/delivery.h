/*
 * delivery.h - a delivery at work. Only deliver.c (when it is due), prepare.c
 * (its turn has come) and outcome.c (its result) include this header. hub.h
 * shows where they stand among the others.
 *
 *   deliver.c       prepare.c                             outcome.c
 *   due ---------> a body: shared, made, or loaded ------> 2xx, 410, failure
 *    ^             fixed: its range is written              |
 *    |             (end of the turn) sent                   |
 *    +---- delivery_go_on, or an alarm ---------------------+
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_DELIVERY_H
#define BROKER_HUB_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/calls/caller.h"
#include "broker/hub/attempt.h"
#include "broker/hub/hub_state.h"
#include "broker/readers/shared_messages.h"

/* Pause after a failure of our own: of a disk, or no memory. */
#define DELIVERY_PAUSE_US ((int64_t)1000000)

/* When a topic has news, so many of its subscriptions begin per turn, which
 * takes some milliseconds; the others begin in the next turns. So deliveries of
 * other topics do not wait for 100,000 subscriptions. */
#define DELIVERY_WAKES_AT_ONCE 2000

struct deliveries {
    struct hub *hub;
    struct shared_messages messages; /* their bodies */
    struct list starving[2]; /* deliveries whose turn has come, but there is no
                                room for bodies: healthy ones, suspects */
    struct list fixed;       /* deliveries whose ranges this turn has written */
    struct list unkept;      /* the same, of a turn whose commit failed */
    struct alarm again;      /* writes their ranges once more */
    bool is_again_set;
    struct alarm room; /* serves the starving */
    struct list ended; /* to be freed when no function of a call uses them any
                          more */
};

/*
 * A delivery: from when its subscription is due until its outcome. A
 * subscription has at most one. The list that holds `node` gives its state:
 *
 *   (none)    queued with the caller, or under way
 *   starving  its turn has come, and waits for room
 *   waiters   of a load: its body is being made
 *   fixed     its range is written, to be kept when this turn ends
 *   unkept    its range could not be kept
 *   ended     done with
 */
struct delivery {
    struct list node;
    struct subscription *s;
    struct call call;
    struct shared_message *body; /* held, as call.is_suspect says; or NULL */
    struct attempt *attempt;
    bool is_going;
};

/* deliver.c */

/* Holds a body for the delivery. */
void delivery_hold(struct delivery *d, struct shared_message *body);

/* Releases everything that a delivery holds; the end of the turn frees it. */
void delivery_end(struct delivery *d);

/* Moves the delivery to a list; returns CALL_LATER. */
enum call_turn delivery_wait_in(struct list *list, struct delivery *d);

/* Decides the next step of a subscription that has no delivery. Does not end
 * the subscription. */
void delivery_go_on(struct subscription *s);

/* Begins a delivery at that time (steady clock), or after that pause. */
void delivery_begin_at(struct subscription *s, int64_t at_us);
void delivery_pause(struct subscription *s, int64_t us);

/* prepare.c */

/* call.prepare */
enum call_turn prepare_call(struct call *call);

/* Makes the headers. The range is kept, and the delivery holds its body. */
enum call_turn prepare_send(struct delivery *d);

/* Gives the caller the decision that `prepare` postponed. */
void prepare_tell(struct caller *caller, struct delivery *d,
                  enum call_turn turn);

/* shared_calls.loaded for deliveries. */
void prepare_loaded(struct shared_messages *messages,
                    const struct shared_loaded *loaded);

/* Retries the deliveries that wait for room, healthy ones first, while there is
 * room. */
void prepare_starving(struct deliveries *all);

/* outcome.c */

/* call.done */
void outcome_done(struct call *call);

/* Moves the cursor to `after`, and forgets the tries. */
void outcome_move(struct subscription *s, uint64_t after);

/* Moves the cursor to the earliest retained entry. */
void outcome_skip(struct subscription *s, uint64_t earliest);

/* Forgets a tried range if a renewal has changed its form: with another filter
 * the range would have other bytes. */
void outcome_look_at_form(struct subscription *s);

void outcome_forget(struct subscription *s); /* its failures */

#endif

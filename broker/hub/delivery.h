/*
 * delivery.h - a delivery at work: what deliver.c (when it is due), prepare.c
 * (its turn has come) and outcome.c (what became of it) share. For these only.
 * Where they stand among the others: hub.h.
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
#include "broker/hub/attempt.h"
#include "broker/hub/bodies.h"
#include "broker/hub/inside.h"
#include "broker/hub/loads.h"
#include "broker/net/caller.h"

/* How long what failed on our own side rests: a disk, memory. */
#define DELIVERY_PAUSE_US ((int64_t)1000000)

/* Subscriptions of one topic that begin in one turn when it has news, which is
 * some milliseconds: the others in the next ones, so that what goes on in other
 * topics waits for no 100,000. */
#define DELIVERY_WAKES_AT_ONCE 2000

struct deliveries {
    struct hub *hub;
    struct bodies bodies;
    struct loads loads;
    struct list starving[2]; /* their turn has come, but there is no room for
                                bodies: healthy ones, suspects */
    struct list fixed;       /* their ranges were written in this turn */
    struct list unkept;      /* ... in one of which nothing was kept */
    struct alarm again;      /* writes those once more */
    bool is_again_set;
    struct alarm room; /* serves the starving */
    struct list ended; /* to be freed when nobody is in a call's function
                          any more */
};

/*
 * A delivery: from when its subscription is due until its outcome, one at most
 * of each. What it is in the list `node` is in:
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
    struct shared_body *body; /* held, as call.is_suspect says; or NULL */
    struct attempt *attempt;
    bool is_going;
};

/* deliver.c */

/* Lets go of what a delivery has; it is freed at the end of the turn. */
void delivery_end(struct delivery *d);

/* Puts it into a list of deliveries; always CALL_LATER. */
enum call_turn delivery_wait_in(struct list *list, struct delivery *d);

/* Decides what comes next for a subscription of which nothing is under way. It
 * does not end here. */
void delivery_go_on(struct subscription *s);

/* Begins a delivery of it then (steady clock), or so much later. */
void delivery_begin_at(struct subscription *s, int64_t at_us);
void delivery_pause(struct subscription *s, int64_t us);

/* prepare.c */

/* call.prepare */
enum call_turn prepare_call(struct call *call);

/* Its range is kept, and it holds its body: makes all that is sent. */
enum call_turn prepare_send(struct delivery *d);

/* Tells the caller what was decided later than in `prepare`. */
void prepare_tell(struct caller *caller, struct delivery *d,
                  enum call_turn turn);

/* loads.on_load, of `user`'s deliveries. */
void prepare_loaded(struct shared_body *body, enum status rc, uint64_t last,
                    struct list *waiters, void *user);

/* Some room was given back: who waits for it tries again, as long as there is;
 * healthy ones first. */
void prepare_starving(struct deliveries *all);

/* outcome.c */

/* call.done */
void outcome_done(struct call *call);

/* The cursor is at `after`, and nothing was tried from there. */
void outcome_move(struct subscription *s, uint64_t after);

/* What follows the cursor is no longer retained: it goes on at the earliest. */
void outcome_skip(struct subscription *s, uint64_t earliest);

/* A renewal may have brought another filter: then a range that was tried is no
 * more, for it would have other bytes. */
void outcome_look_at_form(struct subscription *s);

void outcome_forget(struct subscription *s); /* its failures */

#endif

/*
 * order.h - where a follower stands in the log, and what to make of a message.
 *
 * Pure: no sockets. A message that covers (after, last] is judged by the
 * position P of the last change handed over:
 *
 *     after = P             new, or a heartbeat
 *     after < P, last > P   new from the entry after P on
 *     after < P, last <= P  a repeat
 *     after > P             a gap: (P, after] is missing
 *
 * Two that meet in a seq meet in the digest too; where both digests are known,
 * and in XML over all entries between, that is proven.
 *
 * With filters a message has some of the entries that it covers, none perhaps;
 * all else is the same.
 */
#ifndef CLIENT_FOLLOW_ORDER_H
#define CLIENT_FOLLOW_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/follow/incoming.h"
#include "proto/hash.h"
#include "proto/position.h"
#include "proto/problem.h"

struct order {
    bool is_filtered;   /* set after order_init */
    bool is_placed;     /* else the first message tells where we begin */
    struct position at; /* epoch "" until a message told it */
    bool has_digest;
    struct digest digest; /* d(at.seq) */
};

/* Begins after `after`, "epoch-seq" or a plain seq; NULL: where the first
 * message says. STATUS_MALFORMED: it is neither. */
MUST_CHECK enum status order_init(struct order *order, const char *after);

/* Begins anew after `at`: the digest there is not known until a message tells
 * the next one. That is so at every beginning, for a position has no digest,
 * and where lists filled a hole, for their entries are not there as the log has
 * them. What comes first then is taken at its word, and checked is what follows
 * it. A log that was made anew has another epoch, in lists as in messages. What
 * goes unnoticed is one that was put back to an earlier state and went on from
 * there with the same epoch, where lists that tell of the one history are all
 * that leads to messages of the other. */
void order_set(struct order *order, const struct position *at);

enum verdict {
    VERDICT_NEW,
    VERDICT_REPEAT,
    VERDICT_GAP,
    VERDICT_GONE,  /* the log we followed is no more */
    VERDICT_OTHER, /* another history than ours, or altered: `why` */
    VERDICT_BROKEN /* cannot be right; `why` says more */
};

/* Changes nothing, except that the first message gives the order its place and
 * epoch. VERDICT_NEW: the changes from `*first` on are new. */
enum verdict order_judge(struct order *order, const struct incoming *message,
                         size_t *first, struct problem *why);

/* Moves to the end of a message judged as new. */
void order_advance(struct order *order, const struct incoming *message);

#endif

/*
 * message_sequence.h - the follower's place in the log, and what a message is
 * to it.
 *
 * Pure: no sockets. It compares a message that covers (after, last] with the
 * position P of the last change handed over:
 *
 *     after = P             new, or a heartbeat
 *     after < P, last > P   new from the entry after P on
 *     after < P, last <= P  a repeat
 *     after > P             a gap: (P, after] is missing
 *
 * Two logs that agree at a seq have the same digest there. Where both digests
 * are known, and in XML over all entries between, this is checked.
 *
 * With filters a message has some of the entries that it covers, perhaps none;
 * the rest is the same.
 */
#pragma once

#include "client/follow/broker_message.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* At first zero: the first message sets the place. */
struct message_sequence {
    bool is_filtered;
    bool
        needs_digest; /* of each message with changes: checkpoints prove that */
    bool is_placed;
    struct position at; /* epoch "" until a message has it */
    int64_t us;         /* event time of the entry there; 0: unknown */
    bool has_digest;
    struct digest digest; /* d(at.seq) */
    struct digest here;   /* VERDICT_OTHER: ours at the end of the message */
};

/* Begins anew after `at`. The digest there is unknown until the caller sets it,
 * or a message has the next one, which is then believed. A log that was made
 * anew has another epoch, in lists as in messages. */
void message_sequence_set(struct message_sequence *order,
                          const struct position *at);

enum verdict {
    VERDICT_NEW,
    VERDICT_REPEAT,
    VERDICT_GAP,
    VERDICT_GONE,  /* the log that we followed no longer exists */
    VERDICT_OTHER, /* another history than ours, or altered: order->here */
    VERDICT_BROKEN /* contradicts itself; `why` says how */
};

/* Changes nothing, except that the first message gives the order its place and
 * epoch. VERDICT_NEW: the changes from `*first` on are new. */
enum verdict message_sequence_judge(struct message_sequence *order,
                                    const struct broker_message *message,
                                    size_t *first, struct problem *why);

/* Moves to the end of a message judged as new. */
void message_sequence_advance(struct message_sequence *order,
                              const struct broker_message *message);

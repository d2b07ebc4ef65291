/*
 * message_sequence.c - judges messages by the place of the follower.
 */
#include "client/follow/message_sequence.h"

/* True if the entries are exactly after+1 to last; if filtered, some of them.
 */
static bool
is_complete(const struct message_sequence *order,
            const struct broker_message *message)
{
    const struct coverage *covers = &message->coverage;
    uint64_t before = covers->after;

    if (covers->last < covers->after ||
        (!order->is_filtered &&
         covers->last - covers->after != message->n_changes))
        return false;
    for (size_t i = 0; i < message->n_changes; i++) {
        uint64_t seq = broker_lines(message)[i].seq;

        if (seq <= before || seq > covers->last ||
            (!order->is_filtered && seq != before + 1))
            return false;
        before = seq;
    }
    return true;
}

/* True if no entry is earlier than the one before it, as in each log; checked
 * with a key alone. */
static bool
is_in_time(const struct message_sequence *order,
           const struct broker_message *message, struct problem *why)
{
    const struct broker_line *lines = broker_lines(message);
    int64_t us = message->coverage.after == order->at.seq ? order->us : 0;

    if (!order->needs_digest)
        return true;
    for (size_t i = 0; i < message->n_changes; i++) {
        if (lines[i].us < us) {
            problem_set(why,
                        "entry %" PRIu64 " is earlier than the one before it",
                        lines[i].seq);
            return false;
        }
        us = lines[i].us;
    }
    return true;
}

/* Sets the digest if the place is the beginning of a log, where it is known. */
static void
know_start(struct message_sequence *order)
{
    if (order->at.seq || !order->at.epoch[0])
        return;
    digest_sha256(&order->digest, slice_of(order->at.epoch));
    order->has_digest = true;
}

/* True if the message continues the history that the order knows, or if that
 * cannot be checked. */
static bool
is_same_history(struct message_sequence *order,
                const struct broker_message *message, size_t first)
{
    const struct coverage *covers = &message->coverage;

    order->here = order->digest;
    if (!order->has_digest || covers->last < order->at.seq)
        return true;
    if (covers->last > order->at.seq) {
        if (order->is_filtered) /* it lacks lines that the digest covers */
            return true;
        for (size_t i = first; i < message->n_changes; i++)
            digest_add(&order->here, broker_lines(message)[i].text);
    }
    return !covers->has_digest ||
           digest_is_equal(&order->here, &covers->digest);
}

void
message_sequence_set(struct message_sequence *order, const struct position *at)
{
    order->at = *at;
    order->is_placed = true;
    order->has_digest = false;
    order->us = 0;
    know_start(order);
}

enum verdict
message_sequence_judge(struct message_sequence *order,
                       const struct broker_message *message, size_t *first,
                       struct problem *why)
{
    const struct coverage *covers = &message->coverage;

    *first = 0;
    if (order->at.epoch[0] && strcmp(order->at.epoch, covers->epoch)) {
        problem_set(why, "the set's log was made anew: its epoch is %s, not %s",
                    covers->epoch, order->at.epoch);
        return VERDICT_GONE;
    }
    if (!is_complete(order, message)) {
        problem_set(why,
                    "a message says that it covers %" PRIu64 " to %" PRIu64
                    ", but its entries are others",
                    covers->after + 1, covers->last);
        return VERDICT_BROKEN;
    }
    if (order->needs_digest && message->n_changes > 0 &&
        (!covers->has_digest || (order->at.epoch[0] && !order->has_digest))) {
        problem_set(why, "a message has changes, and no digest %s",
                    covers->has_digest ? "came before it" : "of these");
        return VERDICT_BROKEN;
    }
    if (!is_in_time(order, message, why))
        return VERDICT_BROKEN;
    if (!order->at.epoch[0]) { /* takes its place */
        if (!order->is_placed)
            order->at.seq = covers->after;
        order->is_placed = true;
        memcpy(order->at.epoch, covers->epoch, sizeof(order->at.epoch));
        know_start(order);
    }
    if (covers->after > order->at.seq)
        return VERDICT_GAP;
    if (covers->last > order->at.seq)
        while (*first < message->n_changes &&
               broker_lines(message)[*first].seq <= order->at.seq)
            ++*first;
    if (!is_same_history(order, message, *first))
        return VERDICT_OTHER;
    if (covers->last > order->at.seq || covers->after == order->at.seq)
        return VERDICT_NEW;
    return VERDICT_REPEAT;
}

void
message_sequence_advance(struct message_sequence *order,
                         const struct broker_message *message)
{
    const struct coverage *covers = &message->coverage;

    /* A heartbeat without a digest leaves the known one. */
    if (covers->has_digest || covers->last != order->at.seq) {
        order->has_digest = covers->has_digest;
        order->digest = covers->digest;
    }
    order->at.seq = covers->last;
    if (message->n_changes > 0)
        order->us = broker_lines(message)[message->n_changes - 1].us;
}

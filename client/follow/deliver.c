/*
 * deliver.c - judges messages and hands them over.
 *
 * One ordered sequence, each change exactly once. The argument, for all ways
 * that lead here (stream, events, polls, pages, lists):
 *
 *   1. `order.at` is the last entry that was handed over. Only deliver moves
 *      it, forward, together with the message that covers the entries up to
 *      there (follower_stand, at a baseline, begins another sequence, and the
 *      message says so to the caller).
 *   2. A message is handed over only from `order.at` on. Earlier entries were
 *      handed over, by 1, and are cut off; a message that begins later waits in
 *      `kept` for the entries between. Its entries are those that it covers,
 *      one after the other (message_sequence_judge); in lists each seq is one
 * more than the last (deliver_entry).
 *   3. Every connection begins at `order.at`, never at its own last message.
 *      Two exist at once only while a hole is filled, and then the live one is
 *      held back. So whichever breaks, whenever, the next one begins where the
 *      last whole message ended.
 *   4. Each message has its position, and `on_message` returns before the next
 *      one is made. A caller that stores the position together with the effects
 *      of the message is there after a crash, and 1 to 3 hold from there on
 *      (`after`).
 *
 * Without seqs a place is a time and the number of entries of that time up to
 * it (source_position.h): then 2 is the promise of history.h.
 */
#include <stdio.h>

#include "base/clock.h"
#include "client/follow/follower.h"

/* Bounds of three heartbeats, in milliseconds; a broker's heartbeats are at
 * most an hour apart. */
#define IDLE_LEAST 1000
#define IDLE_MOST  (3 * 3600000)

/* True if everything up to the start's head was handed over. Where the source
 * did not state its head, a heartbeat shows it; except the first one of a
 * connection, which is at the connection's beginning, not at the head. */
static bool
is_caught_up(const struct td_follower *f, const struct td_message *message)
{
    const struct position *at = &f->order.at;

    if (!f->wish.until_caught_up || message->kind != TD_CHANGES ||
        !f->order.is_placed)
        return false;
    if (f->has_goal && !strcmp(at->epoch, f->goal.epoch))
        return at->seq >= f->goal.seq;
    return (f->state == FOLLOWER_LIVE && message->after == message->last) &&
           (f->transport == TD_LONG_POLL || f->n_heard > 1);
}

/* True if the message brings something new. A repeated baseline does not until
 * it exceeds the last one. */
static bool
is_news(struct td_follower *f, const struct td_message *message)
{
    switch (message->kind) {
    case TD_CHANGES:
        return message->n_changes > 0 || message->last > message->after;
    case TD_BASELINE_BEGIN:
        f->n_resources = 0;
        return false;
    case TD_BASELINE:
        f->n_resources += message->n_changes;
        if (f->n_resources <= f->most_resources)
            return false;
        f->most_resources = f->n_resources;
        return true;
    case TD_BASELINE_END:
        f->most_resources = 0;
        break;
    }
    return true;
}

/* Heartbeats alone are no progress. */
static bool
is_patient(struct td_follower *f, const struct td_message *message)
{
    struct problem why = {.rc = STATUS_OK};
    unsigned ms = 0;

    if (message->kind != TD_CHANGES || message->n_changes)
        return true;
    problem(&why, STATUS_UNREACHABLE, "the source has entries up to %llu",
            (unsigned long long)f->goal.seq);
    return follower_is_patient(f, &why, &ms);
}

bool
deliver(struct td_follower *f, struct td_message *message)
{
    bool is_gone = false;
    bool is_new = is_news(f, message);
    int rc;

    message->set = f->offered.name ? f->offered.name : f->offered.url;
    message->set_url = f->offered.url;
    snprintf(f->position, sizeof(f->position), "%s",
             message->position ? message->position : "");
    if (message->kind == TD_CHANGES) {
        f->is_news |= is_new;
        f->is_rebased = false;
    }

    f->is_gone = &is_gone;
    rc = f->on_message(message, f->user);
    if (!follower_is_here(f, is_gone))
        return false;
    if (rc)
        return follower_fail(f, STATUS_STOPPED, "%s", "");
    if (is_new)
        f->new_ms = clock_steady_ms();
    if (is_caught_up(f, message))
        return follower_fail(f, STATUS_OK, "%s", "");
    if (f->has_goal && !is_patient(f, message))
        return false;
    follower_hold(f);
    return true;
}

/* Hands over the changes of f->message from `first` on. */
static bool
deliver_new(struct td_follower *f, size_t first)
{
    struct broker_message *in = &f->message;
    const struct coverage *covers = &in->coverage;
    char position[POSITION_MAX];
    char digest[DIGEST_TEXT_SIZE + 1] = "";
    struct td_message m = {
        .kind = TD_CHANGES,
        .after = f->order.at.seq,
        .last = covers->last,
        .position = position,
        .n_changes = in->n_changes - first,
        .changes = in->n_changes > first ? in->changes + first : NULL,
    };

    position_write(position, covers->epoch, covers->last);
    if (covers->has_digest) {
        digest_write(digest, &covers->digest);
        m.digest = digest;
    }
    broker_message_terminate(in, first);
    message_sequence_advance(&f->order, in);
    f->has_moment = false;
    return deliver(f, &m);
}

static void
heed_heartbeat(struct td_follower *f, int64_t heartbeat_us)
{
    int64_t ms = heartbeat_us / 1000 * 3;

    if (heartbeat_us <= 0 || f->wish.idle_ms)
        return;
    if (ms < IDLE_LEAST)
        ms = IDLE_LEAST;
    f->idle_ms = ms > IDLE_MOST ? IDLE_MOST : (unsigned)ms;
}

/* Keeps the message until the entries before it have been handed over. */
static bool
keep_message(struct td_follower *f, const char *bytes, size_t size)
{
    if (bytes != f->kept.data) {
        buf_clear(&f->kept);
        buf_add(&f->kept, bytes, size);
        if (f->kept.failed)
            return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    }
    return holes_begin(f, f->message.coverage.after);
}

static bool
is_other(struct td_follower *f, enum status rc, struct problem *why)
{
    why->rc = rc;
    return rebase_gone(f, why);
}

bool
deliver_bytes(struct td_follower *f, char *bytes, size_t size)
{
    struct problem why = {.text = ""};
    enum status rc =
        broker_message_read(&f->message, (struct slice){bytes, size}, &why);
    size_t first;

    if (rc == STATUS_MEMORY)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    if (rc)
        return follower_fail(f, rc,
                             "the broker sent something that is no message: %s",
                             why.text);
    f->was_heard = true;
    f->n_mute = 0;
    transport_choice_fit(&f->ways, f->transport);
    heed_heartbeat(f, f->message.coverage.heartbeat_us);
    switch (message_sequence_judge(&f->order, &f->message, &first, &why)) {
    case VERDICT_NEW:
        return deliver_new(f, first);
    case VERDICT_REPEAT:
        return true;
    case VERDICT_GAP:
        return keep_message(f, bytes, size);
    case VERDICT_GONE:
        return is_other(f, STATUS_GONE, &why);
    case VERDICT_OTHER:
        return is_other(f, STATUS_MALFORMED, &why);
    case VERDICT_BROKEN:
        break;
    }
    return follower_fail(f, STATUS_MALFORMED, "%s", why.text);
}

bool
deliver_page(struct td_follower *f, bool *is_stuck)
{
    struct problem why = {.text = ""};
    size_t first;

    *is_stuck = false;
    switch (message_sequence_judge(&f->order, &f->message, &first, &why)) {
    case VERDICT_NEW:
        if (f->message.coverage.last > f->order.at.seq)
            return deliver_new(f, first);
        /* fallthrough */
    case VERDICT_REPEAT:
    case VERDICT_GAP:
        *is_stuck = true;
        return true;
    case VERDICT_GONE:
        return is_other(f, STATUS_GONE, &why);
    case VERDICT_OTHER:
        return is_other(f, STATUS_MALFORMED, &why);
    case VERDICT_BROKEN:
        break;
    }
    return follower_fail(f, STATUS_MALFORMED, "%s", why.text);
}

/* Entries of Change Lists */

bool
deliver_batch(struct td_follower *f)
{
    const struct source_position *after = &f->batch_after;
    char position[TD_POSITION_SIZE];
    struct td_message m = {
        .kind = TD_CHANGES,
        .position = position,
        .n_changes = changes_count(&f->batch.changes),
        .changes = changes_seal(&f->batch.changes),
    };
    bool goes_on;

    if (!f->has_batch)
        return true;
    if (!after->is_time) {
        m.after = f->batch_begin;
        m.last = after->at.seq;
    }
    source_position_write(position, after);
    follower_stand(f, after);
    f->has_batch = false;
    goes_on = deliver(f, &m);
    if (goes_on)
        batch_clear(&f->batch);
    return goes_on;
}

/* True if `after` is the next place. The first entry of all defines where the
 * follower begins. */
static bool
is_next(const struct td_follower *f, const struct source_position *after)
{
    if (after->is_time || (!f->has_batch && !f->order.is_placed))
        return true;
    return after->at.seq ==
           (f->has_batch ? f->batch_after.at.seq : f->order.at.seq) + 1;
}

static bool
is_repeat(const struct td_follower *f, const struct source_position *after)
{
    if (after->is_time || (!f->has_batch && !f->order.is_placed))
        return false;
    return after->at.seq <=
           (f->has_batch ? f->batch_after.at.seq : f->order.at.seq);
}

bool
deliver_entry(struct td_follower *f, const struct document_entry *entry,
              const struct source_position *after)
{
    if (is_repeat(f, after))
        return true;
    if (!is_next(f, after))
        return follower_fail(f, STATUS_MALFORMED,
                             "a gap before %llu that the Change Lists do not "
                             "fill",
                             (unsigned long long)after->at.seq);
    if (batch_add(&f->batch, &f->wish.filter, entry, true, NULL))
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    if (!f->has_batch)
        f->batch_begin = after->at.seq - 1;
    f->batch_after = *after;
    f->has_batch = true;
    return batch_is_full(&f->batch) ? deliver_batch(f) : true;
}

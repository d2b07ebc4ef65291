/*
 * push.c - takes messages that are pushed from elsewhere: to a callback.
 *
 *     reading --> nothing more --> waiting --poll_ms--> reading
 *                                     |
 *                     message, nudge  +--continues at the place--> deliver
 *                                     +--anything else-----------> reading
 *
 * A pushed message is believed only if it continues exactly at the follower's
 * place. Anything else, a wrong message or missing ones, the follower finds out
 * by reading: so a push can only hasten that.
 */
#include "client/follow/follower.h"

bool
push_wait(struct td_follower *f)
{
    bool is_nudged = f->is_nudged;

    f->is_nudged = false;
    follower_rest(f, is_nudged ? 0 : f->wish.poll_ms);
    f->is_waiting = !is_nudged;
    return false;
}

void
push_nudge(struct td_follower *f)
{
    if (!f->is_waiting) { /* push_wait sees it after the reading */
        f->is_nudged = true;
        return;
    }
    f->is_waiting = false;
    timer_start(f->timer, 0); /* in a pause on_timer sets is_due */
}

/* Judges the message; an unreadable one counts as a gap. */
static enum verdict
judge_message(struct td_follower *f, char *bytes, size_t size)
{
    struct message_sequence order =
        f->order; /* message_sequence_judge may change it */
    struct problem why = {.text = ""};
    size_t first;

    if (!bytes ||
        broker_message_read(&f->message, (struct slice){bytes, size}, &why))
        return VERDICT_GAP;
    return message_sequence_judge(&order, &f->message, &first, &why);
}

void
push_message(struct td_follower *f, const char *bytes, size_t size)
{
    enum verdict verdict;
    char *copy;

    /* Notifications are XML and unfiltered. */
    if (!f->is_waiting || f->is_paused || !f->order.is_placed ||
        f->order.is_filtered || f->wish.form != TD_XML ||
        size > LIVE_MESSAGE_MAX) {
        push_nudge(f);
        return;
    }
    copy = slice_dup((struct slice){bytes, size});
    verdict = judge_message(f, copy, size);
    if (verdict == VERDICT_NEW)
        deliver_bytes(f, copy, size);
    else if (verdict != VERDICT_REPEAT)
        push_nudge(f);
    free(copy);
}

void
push_close(struct td_follower *f)
{
    struct pusher pusher = f->pusher;

    f->pusher = (struct pusher){.close = NULL};
    if (pusher.close)
        pusher.close(pusher.owner);
}

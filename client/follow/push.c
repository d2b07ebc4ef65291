/*
 * push.c - what is pushed from elsewhere: notifications at a callback.
 *
 *     asked for --> nothing more --> waiting --poll_ms--> asked for
 *                                       |
 *                       message, nudge  +--goes on where it stands--> told
 *                                       +--anything else------------> asked for
 *
 * A message that comes this way is believed as far as it goes on exactly where
 * the follower stands. Whatever else may be wrong with it, missing before it,
 * or meant by it is found out by asking: so no push can do more than hasten
 * that.
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
    if (!f->is_waiting) { /* it is heard when what is under way is over */
        f->is_nudged = true;
        return;
    }
    f->is_waiting = false;
    timer_start(f->timer, 0); /* paused, it waits there until it is resumed */
}

/* What it is to where we stand; what cannot be read is as good as a gap. */
static enum verdict
judge(struct td_follower *f, char *bytes, size_t size)
{
    struct order order = f->order; /* which must not learn from it */
    struct problem why = {.text = ""};
    size_t first;

    if (!bytes || incoming_read(&f->message, (struct slice){bytes, size}, &why))
        return VERDICT_GAP;
    return order_judge(&order, &f->message, &first, &why);
}

void
push_message(struct td_follower *f, const char *bytes, size_t size)
{
    enum verdict verdict;
    char *copy;

    /* Notifications are XML, and of all changes. */
    if (!f->is_waiting || f->is_paused || !f->order.is_placed ||
        f->order.is_filtered || f->wish.form != TD_XML ||
        size > LIVE_MESSAGE_MAX) {
        push_nudge(f);
        return;
    }
    copy = slice_dup((struct slice){bytes, size});
    verdict = judge(f, copy, size);
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

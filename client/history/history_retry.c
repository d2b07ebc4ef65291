/*
 * history_retry.c - asks again: for a document, after a pause; or for all of
 * them, when the lists have moved on.
 *
 *     document fails for now --> rewound to before it --> pause --> the same
 *     lists moved on ----------> all forgotten --> (pause) --> HISTORY_TOP
 *
 * Sources write their documents one after the other: a list may have moved
 * before the index or the archive says so. So the history looks again a few
 * times before it believes documents that do not fit together.
 */
#include "base/clock.h"
#include "client/history/history_state.h"
#include "client/lib/pause.h"

/* Looks at lists that have moved on, while no entry was new: the first at once,
 * then after pauses, together some three seconds. */
#define LOOKS_MAX 5

/* The longest pause before an attempt, unless the server asks for longer. */
#define PAUSE_MOST_MS 30000

static void
wait_before_retry(struct history *h, unsigned ms)
{
    h->due_ms = clock_steady_ms() + ms;
    timer_start(h->timer, ms);
}

bool
history_is_due(struct history *h)
{
    int64_t left = h->due_ms - clock_steady_ms();

    if (!h->due_ms)
        return true;
    if (left > 0) {
        timer_start(h->timer, (uint64_t)left);
        return false;
    }
    h->due_ms = 0;
    return true;
}

/* Another look */

bool
history_again(struct history *h)
{
    if (h->has_told)
        h->n_looks = 0;
    if (h->n_looks == LOOKS_MAX)
        return false;
    if (h->n_looks == 0)
        h->look_pause_ms = PAUSE_FIRST;
    history_forget(h);
    h->state = HISTORY_TOP;
    wait_before_retry(h, h->n_looks++ == 0
                             ? 0
                             : pause_take(&h->look_pause_ms, PAUSE_MOST_MS));
    return true;
}

/* Another attempt */

void
history_mark(struct history *h)
{
    h->before = (struct history_mark){
        .kept = h->kept, .n_found = h->found.n, .n_older = h->older.n};
}

/* Drops what a broken document had added: it will be read again. */
void
history_rewind(struct history *h)
{
    list_entries_rewind(&h->kept, &h->before.kept);
    history_parts_cut(&h->found, h->before.n_found);
    history_parts_cut(&h->older, h->before.n_older);
}

bool
history_waits(struct history *h, const struct problem *why)
{
    bool is_freed = false;
    bool goes_on;
    unsigned ms;

    if (why->rc != STATUS_UNREACHABLE || !h->on_wait)
        return false;
    ms = pause_asked(&h->pause_ms, PAUSE_MOST_MS, why->retry_after_s);
    h->is_freed = &is_freed;
    goes_on = h->on_wait(why, &ms, h->user);
    if (is_freed)
        return true;
    h->is_freed = NULL;
    if (!goes_on) {
        h->is_paused = true; /* until it is freed */
        return true;
    }
    h->has_failed = true;
    wait_before_retry(h, ms);
    return true;
}

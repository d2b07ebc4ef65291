#include "broker/readers/marks.h"

/*
 * Why no news is lost. A setter makes its news visible under a lock (a commit:
 * the head's), then sets the mark: an exchange X. The owner clears the mark, a
 * store F, then looks under the same lock. Let X find the mark set, and do
 * nothing, because F comes behind it. If the look were before the news in the
 * order of the lock, F would happen before X: so the look is behind the news,
 * and sees it. If X finds the mark not set, it is the only exchange that does,
 * and its thread is the only one that pushes, until F.
 *
 * Why `below` needs no atomics: a pushing thread writes it before the
 * compare-exchange that publishes it. The owner reads it behind the exchange in
 * watcher_take, which synchronizes with that compare-exchange, and with those
 * of the logs below, because each read-modify-write of `marked` continues their
 * release sequences. The next thread that pushes the log writes it again, after
 * it has read the `false` that watched_clear stores behind that reading.
 *
 * Why there is no ABA: no thread takes a single log off. Between load and
 * compare-exchange the stack may have been taken and filled anew; if its top is
 * the same again, it is the top of the logs that are below it now.
 *
 * Why watched_end may free: after log_unwatch no commit marks the log, and
 * the last mark is on the stack, because the log thread pushed it under the
 * lock that log_unwatch took. So it is on the stack, in `taken`, or nowhere;
 * watched_end takes the stack, and then leaves the list.
 *
 * Sequentially consistent, though less would do: this happens once per commit.
 */

void
watcher_init(struct watcher *watcher, void (*wake)(struct watcher *))
{
    *watcher = (struct watcher){.wake = wake};
    list_init(&watcher->taken);
}

/* The youngest mark is on top. Each log goes in front of the log above it, and
 * behind the logs that were taken earlier. */
void
watcher_take(struct watcher *watcher)
{
    struct watched_log *w = atomic_exchange(&watcher->marked, NULL);
    struct list *last = watcher->taken.prev;

    for (; w; w = w->below) {
        w->is_taken = true;
        list_prepend(last, &w->node);
    }
}

struct watched_log *
watcher_next(struct watcher *watcher)
{
    return list_take(&watcher->taken, offsetof(struct watched_log, node));
}

void
watched_init(struct watched_log *watched, struct watcher *watcher)
{
    *watched = (struct watched_log){.watcher = watcher};
    list_init(&watched->node);
}

/* On the log thread, under the set's lock. */
static void
on_commit(struct watch *watch)
{
    watched_mark(list_entry(watch, struct watched_log, watch));
}

void
watched_listen(struct watched_log *watched, struct log_set *log)
{
    if (watched->log)
        return;
    watched->log = log;
    watched->watch.wake = on_commit;
    log_watch(log, &watched->watch);
}

void
watched_end(struct watched_log *watched)
{
    if (watched->log)
        log_unwatch(watched->log, &watched->watch);
    watched->log = NULL;
    if (watched_is_marked(watched))
        watcher_take(watched->watcher);
    list_remove(&watched->node);
    watched_clear(watched);
}

void
watched_mark(struct watched_log *watched)
{
    struct watcher *watcher = watched->watcher;
    struct watched_log *top;

    if (atomic_exchange(&watched->is_marked, true))
        return;
    top = atomic_load(&watcher->marked);
    do
        watched->below = top;
    while (!atomic_compare_exchange_weak(&watcher->marked, &top, watched));
    watcher->wake(watcher);
}

bool
watched_is_marked(const struct watched_log *watched)
{
    return atomic_load(&watched->is_marked);
}

void
watched_clear(struct watched_log *watched)
{
    if (!watched->is_taken)
        return;
    watched->is_taken = false;
    list_remove(&watched->node);
    atomic_store(&watched->is_marked, false);
}

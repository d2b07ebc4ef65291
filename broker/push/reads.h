/*
 * reads.h - frames that are made at the worker pool, because what they say is
 * not in memory, or is large to convert or to compress.
 *
 * Those who wish for the same frame share one read; one that nobody waits for
 * any more is not begun. Of one service thread at most READS_MAX run at once:
 * half of the worker pool (net/server.c) stays free for documents when
 * everybody comes back at the same time.
 */
#ifndef BROKER_PUSH_READS_H
#define BROKER_PUSH_READS_H

#include "base/list.h"
#include "broker/net/server.h"
#include "broker/push/frames.h"

#define READS_MAX 2

/* The reads of one service thread; all calls and callbacks on it. */
struct reads {
    struct list queued, running;
    unsigned n_running;

    /* A read has ended: `frame` is lent, or NULL when `rc` says why not.
     * `waiters` are the nodes that were given to reads_begin and are still in
     * the list; the callee empties it. */
    void (*on_read)(struct frame *frame, enum status rc, struct list *waiters,
                    void *user);
    void *user;
};

void reads_init(struct reads *reads,
                void (*on_read)(struct frame *, enum status, struct list *,
                                void *),
                void *user);

/* True if that frame is being made. */
bool reads_has(const struct reads *reads, const struct frame_wish *wish);

/* Has a frame made; puts `waiter` into the list of those who wait for it, from
 * which it may be removed at any time. STATUS_MEMORY. */
MUST_CHECK enum status reads_begin(struct reads *reads, struct service *service,
                                   const struct frame_wish *wish,
                                   struct list *waiter);

#endif

/*
 * reads.h - makes frames on the worker pool, if their entries are not in
 * memory, or if they are large to compress.
 *
 * Subscribers with the same wish share one read; a read without waiters is not
 * begun. At most READS_MAX reads of one service thread run at once: half of the
 * worker pool (net/server.c) stays free for documents when all clients return
 * at the same time.
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

    /* A read has ended. `frame` is lent, or NULL and `rc` has the reason.
     * `waiters` holds the nodes of reads_begin that their owners have not
     * removed; the callee empties it. */
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

/* Makes a frame, and appends `waiter` to the list of its waiters, from which
 * the owner may remove it at any time. STATUS_MEMORY. */
MUST_CHECK enum status reads_begin(struct reads *reads, struct service *service,
                                   const struct frame_wish *wish,
                                   struct list *waiter);

#endif

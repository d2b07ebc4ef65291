/*
 * loads.h - bodies that are made at the worker pool, because what they say is
 * not in memory, or long to look through.
 *
 * Those who wish for the same body share one load; one that nobody waits for
 * any more is not begun. At most LOADS_MAX run at once: the rest of the worker
 * pool (net/server.h) stays free for documents when all callbacks are behind. A
 * load begins when there is room for its body (bodies.h), and one that only
 * suspects wait for when there is no other.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_LOADS_H
#define BROKER_HUB_LOADS_H

#include "base/list.h"
#include "broker/hub/bodies.h"
#include "broker/hub/topic.h"
#include "broker/net/caller.h"

#define LOADS_MAX 2

struct loads {
    struct hub *hub;
    const struct bodies *bodies; /* lent: whether there is room */
    struct list queued[2];       /* somebody healthy waits; suspects only */
    struct list running;
    unsigned n_running;

    /* A load has ended: `body` is the callee's, or NULL when `rc` says why not;
     * `last` as by topic_read. `waiters` are the nodes that were given to
     * loads_begin and are still in the list; the callee empties it. */
    void (*on_load)(struct shared_body *body, enum status rc, uint64_t last,
                    struct list *waiters, void *user);
    void *user;
};

void loads_init(struct loads *loads, struct hub *hub,
                const struct bodies *bodies,
                void (*on_load)(struct shared_body *, enum status, uint64_t,
                                struct list *, void *),
                void *user);

/* Those that were never begun; none runs any more. */
void loads_fini(struct loads *loads);

/* Has a body made, of a set's topic; puts `waiter` into the list of those who
 * wait for it, from which it may be removed at any time. The wish's patience is
 * LOG_DISK. STATUS_MEMORY. */
MUST_CHECK enum status loads_begin(struct loads *loads,
                                   const struct topic *topic,
                                   const struct topic_wish *wish,
                                   bool is_suspect, struct list *waiter);

/* There may be room now. */
void loads_go_on(struct loads *loads);

#endif

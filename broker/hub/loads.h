/*
 * loads.h - makes bodies on the worker pool, if their entries are not in
 * memory, or take long to search.
 *
 * Deliveries with the same wish share one load; a load that no delivery waits
 * for any more is not begun. At most LOADS_MAX run at once: the rest of the
 * worker pool (net/server.h) stays free for documents when all callbacks are
 * behind. A load begins when there is room for its body (bodies.h). One that
 * only suspects wait for begins when there is no other.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_LOADS_H
#define BROKER_HUB_LOADS_H

#include "base/list.h"
#include "broker/calls/caller.h"
#include "broker/hub/bodies.h"
#include "broker/hub/topic.h"

#define LOADS_MAX 2

struct loads {
    struct hub *hub;
    const struct bodies *bodies; /* lent; says whether there is room */
    struct list queued[2];       /* for a healthy delivery; for suspects only */
    struct list running;
    unsigned n_running;

    /* A load has ended. The callee takes `body`, or it is NULL and `rc` gives
     * the reason; `last` as in topic_read. `waiters` holds the nodes of
     * loads_begin that their owners have not removed; the callee empties it. */
    void (*on_load)(struct shared_body *body, enum status rc, uint64_t last,
                    struct list *waiters, void *user);
    void *user;
};

void loads_init(struct loads *loads, struct hub *hub,
                const struct bodies *bodies,
                void (*on_load)(struct shared_body *, enum status, uint64_t,
                                struct list *, void *),
                void *user);

/* Frees the loads that were never begun; none runs any more. */
void loads_fini(struct loads *loads);

/* Makes a body of a set's topic, and appends `waiter` to the list of its
 * waiters, from which the owner may remove it at any time. The wish's patience
 * is LOG_DISK. STATUS_MEMORY. */
MUST_CHECK enum status loads_begin(struct loads *loads,
                                   const struct topic *topic,
                                   const struct topic_wish *wish,
                                   bool is_suspect, struct list *waiter);

/* Begins loads if there is room now. */
void loads_go_on(struct loads *loads);

#endif

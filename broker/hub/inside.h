/*
 * inside.h - struct hub, for the files of this folder. All of it is the
 * delivery thread's, but what stands under "Other threads".
 */
#ifndef BROKER_HUB_INSIDE_H
#define BROKER_HUB_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "broker/hub/hub.h"
#include "broker/hub/records.h"
#include "broker/hub/subscription.h"
#include "broker/hub/verify.h"
#include "broker/net/caller.h"
#include "proto/signature.h"

/* How often cursors that have moved are kept, and a turn that could not be kept
 * is tried again. */
#define HUB_TICK_US 1000000

struct hub {
    struct registry *registry;
    const struct config *config;
    const struct networks *allowed;
    struct networks loopback; /* of an open broker; or none */
    struct caller *caller;
    struct records *records;
    struct list topics;
    void *topic_tree;            /* topic.c: those of sets, by kind and set */
    struct framework *framework; /* framework.c; NULL while no topic needs it */
    struct list relays;
    struct subscriptions *subscriptions; /* subscription.c: tables */
    struct list moved;                   /* cursors that hub.db is to be told */
    struct requests *requests;           /* verify.c: tables, limits */
    struct deliveries *deliveries;       /* deliver.c */
    struct relaying *relaying;           /* relay.c */
    struct foreign *foreign;             /* foreign.c */
    bool has_synced_hubs;                /* external.c: not only what changed */
    struct list answers; /* orders that are done when this turn is kept */
    enum signature_method signature;
    struct alarm tick;
    bool is_failing;  /* hub.db was not written the last time: reported once */
    int64_t again_us; /* steady: what could not be kept is tried again then */

    /* Other threads */
    struct marks dirty; /* topics that have news: topic.c */
    atomic_bool sets_changed;
    _Atomic(struct caller *) woken; /* hub_wake: NULL before there is one */
    pthread_mutex_t mutex;          /* between hub_submit and hub_stop */
    bool is_stopping;
};

/* Makes the thread look at what is dirty. Any thread, also before there is a
 * delivery thread: that looks at everything when it begins. */
void hub_wake(struct hub *hub);

/* The thread is about to end. */
static inline bool
hub_is_stopping(struct hub *hub)
{
    bool is;

    pthread_mutex_lock(&hub->mutex);
    is = hub->is_stopping;
    pthread_mutex_unlock(&hub->mutex);
    return is;
}

/* Runs an order on the delivery thread; comes to hub_answer, hub_answer_now, or
 * whoever else it is given to (order_run.c). */
void hub_run(struct order *order);

/* A topic is no more: what belongs to it ends. Of its subscriptions so many in
 * a turn, which is some milliseconds; true: there are more. */
#define HUB_ENDS_AT_ONCE 1000
bool hub_end_topic(struct hub *hub, struct topic *topic);

/* The networks that the callback of such terms may be in beside `allowed`.
 * Clients of this machine could make such a call themselves; nobody else may
 * have one made. NULL: none. */
static inline const struct networks *
hub_also(const struct hub *hub, const struct terms *terms)
{
    return terms->is_local ? &hub->loopback : NULL;
}

/* Does the topic belong to that set, or relay? */
bool hub_topic_is(const struct topic *topic, const char *name, bool is_relay);

/* The order is done when what this turn writes is kept; if it is not, with 503
 * instead of the outcome it has now. */
void hub_answer(struct hub *hub, struct order *order);

/* It is done now. */
void hub_answer_now(struct order *order, enum status status,
                    const struct problem *why);

#endif

/*
 * hub_state.h - struct hub, for the files of this folder. The delivery thread
 * owns it, except the members under "Other threads".
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "broker/calls/caller.h"
#include "broker/hub/attempt_log.h"
#include "broker/hub/delivery.h"
#include "broker/hub/denial.h"
#include "broker/hub/hub.h"
#include "broker/hub/hub_keys.h"
#include "broker/hub/subscription.h"
#include "broker/hub/verification.h"
#include "broker/readers/reader.h"
#include "broker/sources/foreign_source.h"
#include "broker/sources/foreign_topic.h"
#include "broker/sources/hub_db.h"
#include "proto/http/webhook_signature.h"

/* For DIAG: which subscription or request a line is about. */
#define HUB_KEYS(of)             \
    diag_number("id", (of)->id), \
        diag_text("callback", websub_origin(slice_of((of)->callback)).text)

/* Period of writing moved cursors, and of trying again after a failed
 * commit. */
#define HUB_TICK_US 1000000

/* The most subscriptions of a topic that is gone which end in a turn: that
 * takes some milliseconds. */
#define HUB_ENDS_AT_ONCE 1000

struct hub {
    struct posts *posts;
    struct registry *registry; /* of the posts */
    const struct config *config;
    struct tokens *tokens; /* lent; NULL: no subscription ends by its owner */
    const struct networks *allowed;
    struct networks loopback; /* of an open broker; else empty */
    struct caller *caller;
    struct hub_db *db;
    struct list topics;
    struct map topics_of_sets; /* topic.c: by kind and set */
    unsigned n_framework_topics;
    struct framework framework;
    struct callback_tables subscriptions;
    struct list moved; /* subscriptions whose cursor hub.db
                          lacks */
    struct list over;  /* subscriptions that end with this
                          turn: hub_end_soon */
    struct verifications verifications;
    struct denials denials;
    struct hub_keys keys;
    struct deliveries deliveries;
    struct attempt_logs attempts;
    struct readers readers; /* delivery.c: of all subscriptions */
    struct foreign_topics foreign_topics;
    struct foreign_sources foreign_sources;
    bool has_synced_hubs; /* hub.c: else it looks at all of
                             them */
    struct command_answers answers;
    enum signature_method signature;
    struct alarm tick;
    bool is_failing;  /* writing hub.db failed the last time; for the log */
    int64_t again_us; /* steady: when a failed commit is tried again */

    /* Of a cluster (hub_parts.c); times on the steady clock */
    const struct hub_cluster *cluster; /* or NULL */
    int64_t follow_at_us; /* when it reads what others have written */
    uint64_t n_followed;  /* the last row when the keys were read */
    bool cannot_take,
        cannot_follow; /* it was said; the next tick tries again */

    /* Other threads */
    atomic_bool topics_changed; /* hub_sets_changed */
    atomic_uint parts;    /* a bit for each that this broker has: alone, all */
    atomic_bool is_unfit; /* hub.db has other rows than the cluster */
    atomic_bool parts_changed;      /* hub_give */
    _Atomic(struct caller *) woken; /* hub_wake's; NULL before there is one */
    pthread_mutex_t mutex; /* between hub_submit and hub_stop; guards: */
    pthread_cond_t left;   /* `entered` has lost parts */
    const struct ownership_right *given[HUB_PARTS]; /* by hub_give; or NULL */
    unsigned entered;        /* parts whose rights the thread uses */
    atomic_bool is_stopping; /* the thread is about to end */
};

/* Makes the thread look at what is marked. Any thread, also before the delivery
 * thread exists: it looks at everything when it begins. */
static inline void
hub_wake(struct hub *hub)
{
    struct caller *caller = atomic_load(&hub->woken);

    if (caller)
        caller_wake(caller);
}

/* Ends a subscription with this turn: for parts that subscription.c uses, or
 * that are not done with the subscription yet. */
static inline void
hub_end_soon(struct subscription *s, enum subscription_end how)
{
    s->how = how;
    list_put(&s->hub->over, &s->over);
}

/* The networks that a callback with these terms may be in beside `allowed`;
 * NULL: none. Clients of this machine could make such a call themselves; nobody
 * else may have the broker make it. */
static inline const struct networks *
hub_also(const struct hub *hub, const struct terms *terms)
{
    return terms->is_local ? &hub->loopback : NULL;
}

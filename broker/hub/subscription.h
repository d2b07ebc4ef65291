/*
 * subscription.h - who gets a topic's messages: callback, terms, lease, cursor;
 * the one place that changes what a subscription is.
 *
 *                 request (verify.h)
 *                        | confirmed                 renewal: the same again
 *                        v                               |
 *     subscription_confirm --> active <------------------+
 *                                |
 *       lease ended, unsubscribed, 410, denied, DELETE, its topic removed
 *                                v
 *                        subscription_end --> freed
 *
 * The key of a subscription is the pair of topic and callback (W-034). All of
 * it is the delivery thread's; what it is, is kept in hub.db (records.h) before
 * anybody is told.
 *
 * An external hub of a set (settings member "hubs") is a subscription too, of
 * kind SUBSCRIPTION_HUB: no lease, no secret; its "callback" is the hub's URL,
 * and what it gets are fat pings.
 */
#ifndef BROKER_HUB_SUBSCRIPTION_H
#define BROKER_HUB_SUBSCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "broker/hub/pairs.h"
#include "broker/hub/topic.h"
#include "broker/net/caller.h"
#include "broker/sets/filters.h"
#include "proto/problem.h"
#include "proto/signature.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/websub.h"

struct hub;
struct delivery; /* deliver.c */

/* What a renewal replaces as a whole, once it is verified (W-036, W-037). */
struct terms {
    int64_t lease_us; /* granted, from the verification request on */
    char secret[WEBSUB_SECRET_MAX + 1]; /* wiped when it goes */
    size_t secret_size;                 /* 0: none */
    char *filter;                       /* filter_text, terminated; NULL: all */
    int64_t interval_us;                /* at least between two deliveries */
    bool is_simple;                     /* */
    bool is_local; /* a client of this machine asked, and the callback's host is
                      a loopback address or "localhost" (hub_also) */
};

enum subscription_kind { SUBSCRIPTION_CALLBACK, SUBSCRIPTION_HUB };

struct subscription {
    struct hub *hub;
    uint64_t id; /* never given twice; its row in hub.db */
    enum subscription_kind kind;
    struct topic *topic;
    struct list of_topic; /* topic->subscriptions */
    struct pair pair;     /* its key */
    size_t slot;          /* its place in the table by id */
    char *callback;       /* as given: the wire's (W-080) */
    struct terms terms;
    int64_t created_us;
    int64_t lease_end_us; /* wall clock; INT64_MAX: SUBSCRIPTION_HUB */
    struct alarm lease_alarm;

    /* In effect: made of the terms by subscription.c. */
    struct signer *signer;       /* or NULL */
    struct filter_class *filter; /* or NULL */

    /* The cursor. Entries up to `after` were delivered, or given up. */
    uint64_t after;
    uint64_t reached; /* beyond it: nothing up to this one passes the filter */
    uint64_t range_last; /* the delivery (after, range_last] was tried at least
                            once, as it stands in hub.db; 0: none */
    uint32_t range_form; /* ... in this form: see attempt_form (deliver.c's) */
    uint32_t generation; /* how often the cursor was sent elsewhere */
    struct list moved;   /* in hub->moved: since hub.db was told (once a second)
                          */

    /* The engine's own (deliver.c). */
    struct list node; /* topic->resting, ->waking, or ->busy */
    bool is_resting;
    struct delivery *delivery; /* in flight or being made; or NULL */
    struct alarm retry_alarm;  /* back-off, interval */
    unsigned failures;         /* of this range, in a row */
    int64_t failing_since_us;  /* steady; 0: it is not */
    int64_t last_begun_us;     /* steady: for `interval` */

    /* Told by report.c. */
    uint64_t n_deliveries, n_attempts, n_failed, n_skipped;
    int64_t last_success_us, last_failure_us; /* wall clock; 0: never */
    unsigned last_status;                     /* HTTP; 0: none */
    char last_error[160];
};

/* The tables */

/* For at most `max` subscriptions: struct hub's own. */
struct subscriptions *subscriptions_new(size_t max);

/* Frees them all, without ending them: the loop ends, or never began. NULL is
 * allowed. */
void subscriptions_free(struct subscriptions *all);

size_t subscriptions_count(const struct hub *hub);

/* The subscription of that kind and pair; NULL: there is none. (What a set's
 * settings name is no subscriber's to renew or end, and the other way round.)
 */
struct subscription *subscription_find(struct hub *hub,
                                       const struct topic *topic,
                                       enum subscription_kind kind,
                                       struct slice callback);
struct subscription *subscription_by_id(struct hub *hub, uint64_t id);

/* The first one with a greater id; NULL: there is none. `after` 0: the first.
 */
struct subscription *subscription_next(struct hub *hub, uint64_t after);

/* The one behind it, in order of ids; NULL: it is the last. */
struct subscription *subscription_behind(const struct subscription *s);

/* Where it looks next. */
static inline uint64_t
subscription_start(const struct subscription *s)
{
    return s->reached > s->after ? s->reached : s->after;
}

/* Has the lease ended? Asked at the start of each try (W-072): the alarm may
 * be late where the wall clock was set. */
static inline bool
subscription_is_over(const struct subscription *s)
{
    return clock_now_us() >= s->lease_end_us;
}

/* One that was learnt at the start; takes over record->terms. Nothing is
 * delivered before subscription_resume, on the delivery thread. STATUS_MEMORY.
 */
struct record;
MUST_CHECK enum status subscription_restore(struct hub *hub,
                                            struct topic *topic,
                                            struct record *record,
                                            struct problem *why);
void subscription_resume(struct subscription *s);

/* A verified request: makes the subscription, or replaces the terms of the one
 * that is there (without interrupting its delivery: W-035). `after`: where a
 * new one begins, or, has_after, where an old one goes on. Takes over what
 * `terms` holds, when it succeeds. Kept in hub.db with this turn's transaction.
 * STATUS_BUSY: too many subscriptions, or different filters. */
MUST_CHECK enum status
subscription_confirm(struct hub *hub, struct topic *topic,
                     struct slice callback, enum subscription_kind kind,
                     struct terms *terms, int64_t lease_end_us, bool has_after,
                     uint64_t after, struct problem *why);

/* Ends it: no delivery from now on (one in flight is cut), its row goes, and
 * it is freed. */
enum subscription_end {
    END_UNSUBSCRIBED,
    END_EXPIRED,
    END_GONE,    /* the callback answered 410 (W-086) */
    END_DELETED, /* by the operator: denied (W-042) */
    END_REMOVED  /* its set or relay was: denied */
};

void subscription_end(struct subscription *s, enum subscription_end how);

/* Sends the cursor back, or forward, to `after`: what is in flight is cut. What
 * is delivered from now on is of another generation, and has ids that nothing
 * had before: whoever drops repeats by their ids gets what was asked for. */
void subscription_redeliver(struct subscription *s, uint64_t after);

void terms_fini(struct terms *terms); /* wipes the secret */

#endif

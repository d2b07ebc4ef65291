/*
 * subscription.h - subscriptions to a topic: callback, terms, lease, cursor.
 * Only this part changes a subscription's state.
 *
 *                 request (verification.h)
 *                        | confirmed                 renewal: the same again
 *                        v                               |
 *     subscription_confirm --> active <------------------+
 *                                |
 *       lease ended, unsubscribed, 410, denied, DELETE, its topic removed,
 *       its owner ended
 *                                v
 *                        subscription_end --> freed
 *
 * The key of a subscription is the pair of topic and callback (W-034). The
 * delivery thread owns it all; hub.db (hub_db.h) keeps a change before any
 * answer or delivery shows it.
 *
 * An external hub of a set (settings member "hubs") is a subscription too, of
 * kind SUBSCRIPTION_HUB: no lease, no secret; its "callback" is the hub's URL,
 * and its messages are fat pings.
 */
#pragma once

#include <openssl/crypto.h>

#include "broker/calls/call_history.h"
#include "broker/calls/caller.h"
#include "broker/hub/attempt_log.h"
#include "broker/hub/callback_tables.h"
#include "broker/hub/topic.h"
#include "broker/readers/message.h"
#include "broker/readers/reader.h"
#include "broker/sources/hub_db.h"
#include "proto/http/webhook_signature.h"
#include "proto/http/websub.h"

struct hub;
struct delivery; /* delivery.c */
struct single_delivery;

/* What a subscriber and the hub have agreed on. A request carries its terms
 * until it is verified; the subscription has them afterwards. A verified
 * renewal replaces all of them (W-036, W-037). */
struct terms {
    int64_t lease_us; /* granted; from the verification request on */
    char secret[WEBSUB_SECRET_MAX + 1]; /* wiped when freed */
    size_t secret_size;                 /* 0: none */
    char *filter;                       /* filter_text, terminated; NULL: all */
    int64_t interval_us;                /* the least time between two
                                           deliveries */
    bool is_simple;                     /* */
    bool wants_v1a;         /* signed with the keys of the hub (hub_keys.h) */
    enum message_form form; /* of its messages: not MESSAGE_PLAIN, which a
                               simple one has instead of MESSAGE_XML */
    bool is_local; /* a client of this machine asked, and the callback's host is
                      a loopback address or "localhost" (hub_also) */
    struct subscriber_token owner; /* its end ends the subscription */
};

/* Frees what the terms hold, wipes the secret, and leaves them all zero. */
static inline void
terms_fini(struct terms *terms)
{
    free(terms->filter);
    subscriber_token_fini(&terms->owner);
    OPENSSL_cleanse(terms->secret, sizeof(terms->secret));
    *terms = (struct terms){0};
}

/* Moves `from` to `to`, and leaves `from` all zero. */
static inline void
terms_move(struct terms *to, struct terms *from)
{
    terms_fini(to);
    *to = *from;
    from->filter = NULL;
    from->owner = (struct subscriber_token){.name = NULL};
    terms_fini(from);
}

enum subscription_kind { SUBSCRIPTION_CALLBACK, SUBSCRIPTION_HUB };

/* Since the start of the broker; for its report. */
struct delivery_history {
    uint64_t n_deliveries, n_attempts, n_failed, n_skipped;
    int64_t last_success_us, last_failure_us; /* wall clock; 0: never */
    unsigned last_status;                     /* HTTP; 0: none */
    char last_error[160];
};

enum subscription_end {
    END_UNSUBSCRIBED,
    END_EXPIRED,
    END_GONE,    /* the callback answered 410 (W-086) */
    END_DELETED, /* by the operator: denied (W-042) */
    END_REMOVED, /* its set or relay was removed: denied */
    END_OWNER    /* its token has ended: denied */
};

struct subscription {
    struct hub *hub;
    uint64_t id;        /* never reused; its row in hub.db: */
    struct hub_row row; /* what hub.db lacks of it, */
    struct hub_range range;
    enum subscription_kind kind;
    struct topic *topic;
    struct callback_key key; /* in topic->subscriptions; with its place: of its
                                owner; of SUBSCRIPTION_HUB, of the client that
                                has made the set */
    char *callback;          /* as given: used for calls (W-080) */
    struct terms terms;
    int64_t created_us;
    int64_t lease_end_us; /* wall clock; INT64_MAX: SUBSCRIPTION_HUB */
    struct alarm lease_alarm;

    struct signer *signer; /* in effect: subscription.c makes it from the terms;
                              or NULL */

    /* The cursor, with the filter and the form in effect. Entries up to `after`
     * were delivered or given up. `upto` is the end of a delivery (after, upto]
     * which hub.db has, and which was tried at least once. */
    struct reader reader;
    uint32_t range_form; /* the form of that range: attempt_form (delivery.c) */
    uint32_t generation; /* counts redeliveries */
    struct list moved;   /* in hub->moved: hub.db lacks the cursor (for a second
                            at most) */

    struct list over;          /* in hub->over: ends with this turn, */
    enum subscription_end how; /* for this reason */

    /* For the deliveries (delivery.c). */
    struct list busy;          /* in topic->busy, unless it rests */
    struct delivery *delivery; /* in flight or being made; or NULL */
    struct alarm retry_alarm;  /* back-off, interval */
    unsigned failures;         /* of this range, in a row */
    int64_t failing_since_us;  /* steady; 0: it is not */
    int64_t last_begun_us;     /* steady: for terms.interval_us */
    struct call_history calls; /* since the start of the broker */

    struct delivery_history history;
    struct attempt_log attempts;

    /* For the deliveries of a single message (delivery.c). */
    struct single_delivery *single; /* under way, beside `delivery`; or NULL */
    int64_t singles_paid_us;        /* steady: the pace of those */
};

/* The tables */

/* Begins the deliveries of `parts` (a bit for each), which were read from
 * hub.db, on the delivery thread; and frees these subscriptions without ending
 * them, also before there is a thread. */
void subscriptions_resume(struct hub *hub, unsigned parts);
void subscriptions_forget(struct hub *hub, unsigned parts);

/* Checks that `client` may have a new one with that callback. STATUS_LIMITED:
 * it has its share, or the callback's host has as many as it may have
 * (--hub-host-subscriptions), of all clients or of this one; STATUS_BUSY: all
 * together are the most. */
MUST_CHECK enum status subscriptions_check_room(struct hub *hub,
                                                struct client *client,
                                                struct slice callback,
                                                struct problem *why);

/* Finds the subscription of that kind and pair; NULL: none. (A subscriber
 * cannot renew or end a hub that a set's settings name, and the other way
 * round.) */
struct subscription *subscription_find(const struct topic *topic,
                                       enum subscription_kind kind,
                                       struct slice callback);

/* True if its callback has failed or hung lately. */
static inline bool
subscription_is_suspect(const struct subscription *s)
{
    return s->failures > 0 || call_history_is_bad(&s->calls);
}

/* True if the lease has ended. Each try asks at its start (W-072): the alarm
 * may be late if the wall clock was set. */
static inline bool
subscription_is_over(const struct subscription *s)
{
    return clock_now_us() >= s->lease_end_us;
}

/* True if its owner may no longer have it. */
bool subscription_is_denied(struct subscription *s, int64_t now_us);

/* Makes a subscription in the tables; takes over record->terms. Begins no
 * delivery, and writes no row. If it was read from hub.db, deliveries begin
 * with subscriptions_resume. STATUS_MEMORY. */
struct hub_record; /* hub_rows.h */
MUST_CHECK enum status subscription_enter(struct topic *topic,
                                          struct hub_record *record,
                                          struct subscription **made,
                                          struct problem *why);

/* Applies a verified request: makes the subscription of record->kind, or
 * replaces the terms of the existing one (without interrupting its delivery:
 * W-035). A new one begins at record->after; with has_after an existing one
 * continues there. Takes over record->terms, if it succeeds. This turn's
 * transaction keeps it. STATUS_BUSY: too many subscriptions, or different
 * filters. */
MUST_CHECK enum status subscription_confirm(struct topic *topic,
                                            struct hub_record *record,
                                            struct problem *why);

/* Ends a subscription: cuts a delivery in flight, begins no other, deletes the
 * row, and frees it. */
void subscription_end(struct subscription *s, enum subscription_end how);

/* Moves the cursor back or forward to `after`, and cuts a delivery in flight.
 * Later deliveries are of another generation, and have new IDs: a subscriber
 * that drops repeats by their IDs accepts them. */
void subscription_redeliver(struct subscription *s, uint64_t after);

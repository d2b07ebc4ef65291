/*
 * tidings_websub.h - a subscriber of W3C WebSub: notifications come by POST to
 * a callback of ours, holes are filled by pull.
 *
 *     discover --> subscribe --> verified --> notified ... --> renew
 *        ^             hub: GET ?hub.challenge   POST              |
 *        +---------------------------------------------------------+
 *
 * Two layers: td_subscriber is the protocol for any topic, whatever its media
 * type; td_follow_options has nothing to do with it. td_callback_follow is
 * td_follower with its live part replaced by a subscription.
 */
#ifndef TIDINGS_WEBSUB_H
#define TIDINGS_WEBSUB_H

#include <stddef.h>
#include <stdint.h>

#include "tidings_client.h"
#include "tidings_follow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A server for callbacks, on the handle's loop. One for any number of
 * subscriptions. */
struct td_callback;

/*
 * Listens for hubs.
 *
 * listen    "HOST:PORT", "[::1]:PORT"; port 0: one is chosen.
 * url       how hubs reach it: "https://me.example/hooks", behind which a path
 *           of its own is added for each subscription; a proxy in front may add
 *           TLS. NULL: "http://HOST:PORT".
 * callback  set to it, the caller's, to be given to td_callback_close, after
 *           its subscriptions.
 *
 * Errors   TD_INVALID  listen or url is malformed.
 *          TD_IO       cannot listen there.
 *          TD_MEMORY
 * Since 0.1.
 */
TD_API enum td_status td_callback_open(struct td_client *client,
                                       const char *listen, const char *url,
                                       struct td_callback **callback);

/* "http://HOST:PORT" or `url`, with the real port. Lent. */
TD_API const char *td_callback_url(const struct td_callback *callback);
TD_API void td_callback_close(struct td_callback *callback); /* or NULL */

/*
 * Waits until the hubs have ended what followers subscribed to that were closed
 * (td_callback_follow), for at most wait_ms milliseconds. Before
 * td_callback_close, where the program has the time; else their leases run out.
 *
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_UNREACHABLE  a hub was not heard in time.
 *          TD_STOPPED, TD_MEMORY
 *          TD_INVALID      called from a callback of the handle.
 * Since 0.1.
 */
TD_API enum td_status td_callback_settle(struct td_callback *callback,
                                         unsigned wait_ms);

/* One delivery. Lent until the callback returns. */
struct td_delivery {
    const char *topic; /* as it was subscribed to */
    const char *type;  /* Content-Type; "" if there is none */
    const void *body;
    size_t size;
    const char *id; /* that tells a repeat (webhook-id); "" if there is none */
};

enum td_subscription_state {
    TD_DISCOVERED, /* the topic's hub and self are found; `detail`: the topic */
    TD_REQUESTED,  /* a hub accepted the request */
    TD_ACTIVE,  /* verified: deliveries come; `detail`: seconds of the lease */
    TD_DENIED,  /* the hub will not; `detail`: its reason. Final. A denial that
                   comes to an active subscription is TD_TROUBLE, until the hub
                   was asked and has confirmed it */
    TD_TROUBLE, /* what went wrong; it is tried again */
    TD_ENDED    /* the unsubscription is verified. Final */
};

struct td_subscriber_options {
    unsigned lease_s;  /* asked for; 0: the hub's default */
    int has_no_secret; /* not 0: none is sent; else one, unless the hub is
                          reached by http and not on loopback (W-030) */
    size_t max_bytes;  /* of a delivery; 0: 64 MiB. Longer: 413 */
    /* Each delivery whose signature is right, once (webhook-id), in order of
     * arrival. It was answered before: it cannot be refused. */
    void (*on_delivery)(const struct td_delivery *delivery, void *user);
    void (*on_state)(enum td_subscription_state state, const char *detail,
                     void *user); /* NULL: nobody asks */
    void *user;
};

struct td_subscriber;

/*
 * Subscribes to a topic and stays subscribed: discovery (Link headers, then the
 * feed's or page's own links), request, verification, renewal before the lease
 * ends, with a new callback URL each time, beginning with discovery again.
 *
 * topic_url   where discovery begins; redirects are followed.
 * options     NULL is not allowed: on_delivery is needed. Copied.
 * subscriber  set to it, the caller's, to be given to td_subscriber_close.
 *
 * Memory   `callback` must live longer.
 * Thread   as the handle of `callback`.
 * Errors   TD_INVALID, TD_MEMORY; all else is told to on_state.
 * Spec     W-005 to W-011, W-020, W-029, W-030, W-033, W-043, W-058 to W-060,
 *          W-073, W-084, W-088, W-104, W-105, W-107. Since 0.1.
 */
TD_API enum td_status
td_subscriber_open(struct td_callback *callback, const char *topic_url,
                   const struct td_subscriber_options *options,
                   struct td_subscriber **subscriber);

/* What was told from the outside and not believed: for operators. */
struct td_subscriber_counts {
    uint64_t delivered; /* handed over */
    uint64_t repeated;  /* known already */
    uint64_t unsigned_; /* answered 403: no signature */
    uint64_t wrong;     /* answered 202, not processed: wrong signature */
    uint64_t unknown;   /* answered 404: no such request */
};

TD_API void td_subscriber_counts(const struct td_subscriber *subscriber,
                                 struct td_subscriber_counts *counts);

/* Asks the hub to end the subscription; TD_ENDED tells when it has. Deliveries
 * are answered with 410 from then on. */
TD_API void td_subscriber_end(struct td_subscriber *subscriber);

/* Forgets it: the hub is not told, its lease runs out. NULL is allowed. */
TD_API void td_subscriber_close(struct td_subscriber *subscriber);

/*
 * As td_follower_open, but what happens arrives at a callback: the change
 * notifications of the set's topic, which the Capability List names.
 * What a delivery does not continue, is missing or was lost is pulled, and so
 * is everything at the start, after each verification, and every
 * options->poll_ms (0: 600,000) in case that a hub is silent for good.
 *
 * With TD_XML and no filters a delivery that goes on where the last message
 * ended is handed over as it came. All others, and all with TD_JSON or filters,
 * only say that there is more, which is then pulled. options->transports is not
 * looked at: what pulls is the change memory, else the Change Lists.
 *
 * When it is closed, or ends by itself, its hub is asked to end the
 * subscription, as long as the loop turns: td_callback_settle.
 *
 * Errors   as td_follower_open; TD_REFUSED (to on_end): the source names no
 *          topic, or its hub denied.
 * Spec     W-147, R-309. Since 0.1.
 */
TD_API enum td_status
td_callback_follow(struct td_callback *callback, const char *url,
                   const struct td_follow_options *options,
                   td_message_fn *on_message, void *user,
                   struct td_follower **follower);

#ifdef __cplusplus
}
#endif

#endif

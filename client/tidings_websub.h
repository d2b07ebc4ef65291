/*
 * tidings_websub.h - a subscriber of W3C WebSub: hubs POST notifications to our
 * callback, and pull fills holes.
 *
 *     discover --> subscribe --> verified --> notified ... --> renew
 *        ^             hub: GET ?hub.challenge   POST              |
 *        +---------------------------------------------------------+
 *
 * Two layers: td_subscriber is the protocol for any topic of any media type,
 * without td_follow_options. td_callback_follow is td_follower with a
 * subscription instead of its live connection.
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

/* A server for callbacks, on the handle's loop: one for any number of
 * subscriptions. */
struct td_callback;

/*
 * Listens for hubs.
 *
 * listen    "HOST:PORT", "[::1]:PORT"; port 0: any free one.
 * url       the address for hubs: "https://me.example/hooks", to which each
 *           subscription adds a path of its own; a proxy in front may add TLS.
 *           NULL: "http://HOST:PORT".
 * callback  set to the server; the caller calls td_callback_close after it has
 *           closed its subscriptions.
 *
 * Errors   TD_INVALID  listen or url is malformed.
 *          TD_IO       cannot listen there.
 *          TD_MEMORY
 * Since 1.0.
 */
TD_API enum td_status td_callback_open(struct td_client *client,
                                       const char *listen, const char *url,
                                       struct td_callback **callback);

/* Returns "http://HOST:PORT" or `url`, with the real port. Lent. */
TD_API const char *td_callback_url(const struct td_callback *callback);
TD_API void td_callback_close(struct td_callback *callback); /* or NULL */

/*
 * Waits until the hubs have ended the subscriptions of closed followers
 * (td_callback_follow), for at most wait_ms milliseconds. Call it before
 * td_callback_close if there is time; else their leases run out.
 *
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_UNREACHABLE  a hub did not answer in time.
 *          TD_STOPPED, TD_MEMORY
 *          TD_INVALID      called from a callback of the handle.
 * Since 1.0.
 */
TD_API enum td_status td_callback_settle(struct td_callback *callback,
                                         unsigned wait_ms);

/* One delivery. Lent until the callback returns. */
struct td_delivery {
    const char *topic; /* as subscribed to */
    const char *type;  /* Content-Type; "" if there is none */
    const void *body;
    size_t size;
    const char *id; /* webhook-id, the same in a repeat; "" if there is none */
};

enum td_subscription_state {
    TD_DISCOVERED, /* discovery found hub and self; `detail`: the topic */
    TD_REQUESTED,  /* a hub accepted the request */
    TD_ACTIVE,  /* verified: deliveries come; `detail`: seconds of the lease */
    TD_DENIED,  /* the hub refuses; `detail`: its reason. Final. A denial of an
                   active subscription is TD_TROUBLE, until the hub confirms it
                   on request */
    TD_TROUBLE, /* a failure; another attempt follows */
    TD_ENDED    /* the unsubscription is verified. Final */
};

struct td_subscriber_options {
    unsigned lease_s;  /* to ask for; 0: the hub's default */
    int has_no_secret; /* not 0: sends none; else sends one, unless the hub has
                          an http URL and is not on loopback (W-030) */
    size_t max_bytes;  /* of a delivery; 0: 64 MiB. Longer: 413 */
    /* Called for each delivery with a right signature, once (webhook-id), in
     * order of arrival. The hub has its answer: refusing is too late. */
    void (*on_delivery)(const struct td_delivery *delivery, void *user);
    void (*on_state)(enum td_subscription_state state, const char *detail,
                     void *user); /* NULL is allowed */
    void *user;
};

struct td_subscriber;

/*
 * Subscribes to a topic and stays subscribed: discovery (Link headers, then the
 * feed's or page's own links), request, verification. Before the lease ends it
 * renews the subscription, with a new callback URL, beginning with discovery.
 *
 * topic_url   where discovery begins; follows redirects.
 * options     NULL is not allowed: on_delivery is needed. Copied.
 * subscriber  set to the subscriber; the caller calls td_subscriber_close.
 *
 * Memory   `callback` must live longer.
 * Thread   as the handle of `callback`.
 * Errors   TD_INVALID, TD_MEMORY; on_state gets all others.
 * Spec     W-005 to W-011, W-020, W-029, W-030, W-033, W-043, W-058 to W-060,
 *          W-073, W-084, W-088, W-104, W-105, W-107. Since 1.0.
 */
TD_API enum td_status
td_subscriber_open(struct td_callback *callback, const char *topic_url,
                   const struct td_subscriber_options *options,
                   struct td_subscriber **subscriber);

/* Counts of deliveries, of refused ones too: for operators. */
struct td_subscriber_counts {
    uint64_t delivered; /* handed over */
    uint64_t repeated;  /* repeats of these */
    uint64_t unsigned_; /* answered 403: no signature */
    uint64_t wrong;     /* answered 202, not processed: wrong signature */
    uint64_t unknown;   /* answered 404: no such request */
};

/* Sets `counts` to those of the subscriber since it was opened. */
TD_API void td_subscriber_counts(const struct td_subscriber *subscriber,
                                 struct td_subscriber_counts *counts);

/* Asks the hub to end the subscription; TD_ENDED follows when it has. The
 * callback answers further deliveries with 410. */
TD_API void td_subscriber_end(struct td_subscriber *subscriber);

/* Frees the subscriber without asking the hub: the lease runs out. NULL is
 * allowed. */
TD_API void td_subscriber_close(struct td_subscriber *subscriber);

/*
 * As td_follower_open, but changes arrive at a callback: as notifications of
 * the set's topic, which the Capability List names. The follower pulls
 * what deliveries miss or do not continue, and everything at the start, after
 * each verification, and every options->poll_ms (0: 600,000) in case a hub is
 * silent for good.
 *
 * With TD_XML and no filters it hands a delivery over unchanged if it continues
 * the last message. All others, and all with TD_JSON or filters, only say that
 * there are changes, and the follower pulls them, from the change memory, else
 * the Change Lists. It ignores options->transports.
 *
 * When it is closed, or ends by itself, it asks the hub to end the
 * subscription, as long as the loop turns: td_callback_settle.
 *
 * Errors   as td_follower_open; TD_REFUSED (to on_end): the source names no
 *          topic, or its hub denied.
 * Spec     W-147, R-309. Since 1.0.
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

/*
 * topic.h - what can be subscribed to: a thing to read from position to
 * position, in messages.
 *
 *   TOPIC_CHANGES     Change Notifications of a set        sets/message.h
 *   TOPIC_FRAMEWORK   its Framework Notifications          likewise
 *   TOPIC_RELAY       documents of a foreign Source        relay.h
 *
 * A struct topic is there as long as it has subscriptions or is a relay; topics
 * nobody subscribed to cost nothing. The delivery thread's.
 */
#ifndef BROKER_HUB_TOPIC_H
#define BROKER_HUB_TOPIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/base/list.h"
#include "broker/log/cursor.h"
#include "broker/sets/filters.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct hub;
struct relay;

enum topic_kind { TOPIC_CHANGES, TOPIC_FRAMEWORK, TOPIC_RELAY };

struct topic {
    struct list node; /* in hub->topics */
    struct hub *hub;
    enum topic_kind kind;
    struct set *set;     /* of TOPIC_CHANGES and _FRAMEWORK */
    struct relay *relay; /* of TOPIC_RELAY */
    char epoch[EPOCH_SIZE + 1];

    /* Sets: woken by the log thread. */
    struct watch watch;
    atomic_bool is_dirty;

    struct list subscriptions; /* all: subscription->of_topic */
    struct list resting;       /* those that have read everything, and wait:
                                  subscription->node */
    unsigned n_requests;       /* verify.c: requests that wait for it */
};

/* The topic with that URL: of a set that exists, or of a relay. Compared as
 * W-026 says. *topic is made if it is not there yet: topic_release when nobody
 * uses it. STATUS_NOT_FOUND: none; STATUS_INVALID: it is one of our own URLs,
 * but no topic ("subscribe to .../notifications"), or another spelling... */
MUST_CHECK enum status topic_find(struct hub *hub, struct slice url,
                                  struct topic **topic, struct problem *why);
MUST_CHECK enum status topic_of_set(struct hub *hub, enum topic_kind kind,
                                    struct set *set, struct topic **topic,
                                    struct problem *why);
MUST_CHECK enum status topic_of_relay(struct hub *hub, struct relay *relay,
                                      struct topic **topic,
                                      struct problem *why);

/* Frees it if it has no subscriptions, and no requests. */
void topic_release(struct topic *topic);

/* Appends its canonical URL (rel=self), and the URL of the hub that its
 * deliveries name (rel=hub). */
void topic_write_url(struct buf *to, const struct topic *topic);
void topic_write_hub(struct buf *to, const struct topic *topic);

/* The seq of its last entry, 0: none; false: it is gone (its set was removed,
 * or removed and made anew). */
bool topic_head(const struct topic *topic, uint64_t *last);

/* Judges a position that a subscriber gave. As positions_judge. */
MUST_CHECK enum status topic_judge(const struct topic *topic,
                                   struct slice position, uint64_t *after,
                                   struct problem *why);

/* Which message is wanted. */
struct topic_wish {
    uint64_t after;
    uint64_t upto; /* the range is fixed; UINT64_MAX: as much as there is */
    const struct filter_class *filter; /* of TOPIC_CHANGES; or NULL */
    uint64_t reached;
    bool is_plain; /* without navigation links */
    enum log_patience patience;
};

/* Appends the message after `after`: *last is where it ends. `to` stays empty
 * where nothing passes the filter up to *last, or at the head (*last = after).
 * Sets *content_type (lent as long as `to` is used). STATUS_AGAIN (LOG_MEMORY);
 * STATUS_GONE: no longer retained, *last is the earliest seq that can be read
 * after. Also on a worker (LOG_DISK), but then not of a relay: those have
 * their documents in hub.db, read at once. */
MUST_CHECK enum status topic_read(const struct topic *topic,
                                  const struct topic_wish *wish, struct buf *to,
                                  const char **content_type, uint64_t *last,
                                  struct problem *why);

#endif

/*
 * topic.h - what can be subscribed to: a thing to read from position to
 * position, in messages.
 *
 *   TOPIC_CHANGES     Change Notifications of a set        sets/message.h
 *   TOPIC_FRAMEWORK   its Framework Notifications          likewise
 *   TOPIC_RELAY       documents of a foreign Source        relay.h
 *
 * A struct topic is there as long as it has subscriptions or requests; topics
 * nobody subscribed to cost nothing. The delivery thread's, but topic_mark.
 *
 * How news comes to it: a set's log wakes the topic's watch, and all framework
 * topics share one (framework.h); a relay says so itself. Each marks the topic,
 * and the thread visits the marked ones only.
 */
#ifndef BROKER_HUB_TOPIC_H
#define BROKER_HUB_TOPIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/marks.h"
#include "broker/hub/ids.h"
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

    /* What is new in it is told to the delivery thread: topic_mark. */
    struct watch watch; /* of TOPIC_CHANGES */
    struct mark mark;   /* it is among hub->dirty */
    bool is_listening;

    /* Of TOPIC_FRAMEWORK, when its set was removed: what is told of that can
     * still be read, up to `end`, and then its subscriptions end. */
    bool is_ending;
    uint64_t end;

    struct list subscriptions; /* all: subscription->of_topic */
    struct list resting;       /* those that have read everything that concerns
                                  them, and wait: subscription->node */
    struct list waking;        /* those that rested when there was news, and are
                                  still to look at it */
    struct list busy;          /* the others */
    unsigned n_requests;       /* verify.c: requests that wait for it */
    struct ids subscriptions_by_id, requests_by_id; /* the same, in order */
    char *links; /* attempt.c: its callbacks' Link header; NULL: not made yet */
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

/* Frees it if it has neither subscriptions nor requests. */
void topic_release(struct topic *topic);

/* The topic of that kind and set that is there already, or NULL. */
struct topic *topic_look(struct hub *hub, enum topic_kind kind,
                         const struct set *set);

/* Has it marked from now on when there is something new; look at its head after
 * this call. When the first subscription begins: whom nobody listens to needs
 * no wake, and before there is a thread there is nobody to wake. */
void topic_listen(struct topic *topic);

/* There is something new in it, which can be read: it is among the dirty ones,
 * and the hub is woken. Any thread that keeps the topic alive; a set's watch
 * calls it, and a relay that has taken in a document. */
void topic_mark(struct topic *topic);

/* Takes the topics that are dirty now; then topic_next_dirty gives one by one,
 * and NULL at the end. Each is no longer dirty when it is given: look at its
 * head now, not before. No topic is released meanwhile. */
struct mark *topic_take_dirty(struct hub *hub);
struct topic *topic_next_dirty(struct mark **taken);

/* Appends its canonical URL (rel=self), and the URL of the hub that its
 * deliveries name (rel=hub). */
void topic_write_url(struct buf *to, const struct topic *topic);
void topic_write_hub(struct buf *to, const struct topic *topic);

/* Its set was removed; of TOPIC_FRAMEWORK: from now on it has what it has. */
void topic_end(struct topic *topic);

/* The seq of its last entry, 0: none; false: it is gone (its set was removed,
 * or removed and made anew), and does not end in order: topic_end. */
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

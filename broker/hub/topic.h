/*
 * topic.h - topics: messages that a subscription reads from position to
 * position.
 *
 *   TOPIC_CHANGES     Change Notifications of a set   readers/message.h
 *   TOPIC_FRAMEWORK   its Framework Notifications     likewise
 *   TOPIC_FOREIGN     documents of a foreign Source   sources/foreign_topic.h
 *
 * A struct topic exists while it has subscriptions or requests; other topics
 * cost nothing. The delivery thread's.
 *
 * A commit of its set marks a topic (readers/marks.h); all framework topics
 * share one watch, which marks them; a foreign topic marks its own. The thread
 * only visits marked topics.
 *
 * The framework events of all sets are in one log, each tagged with the set
 * that it concerns, or as the Source's (sets/framework_events.h). If each topic
 * watched that log, an event would wake the subscribers of ten thousand sets,
 * and make messages for each, though it concerns one. So one watch looks at
 * each event once, in the order of the log, and marks the topics that its tags
 * name. An event of a set costs a look-up; an event of the Source, which
 * concerns all, a walk.
 *
 *     entry 8   set:a    the topic of a
 *     entry 9   set:b    the topic of b, whose resting subscriptions now have
 *                        `reached` 8: what came before was none of theirs
 *     entry 10  source   all
 *
 * A subscription rests when it has read up to `seen`: later events that concern
 * it mark its topic here, so it need not look at the events of others. At the
 * start of the broker the watch begins at the subscription that is furthest
 * behind, and all rest: the worker pool reads the log once, and not once per
 * subscription.
 */
#pragma once

#include "broker/access/tokens.h"
#include "broker/hub/callback_tables.h"
#include "broker/readers/reader.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/position.h"

struct hub;
struct foreign_topic;

/*
 * Whose subscription it is: the principal that asked for
 * it.
 *
 *     name          whose end ends the subscription
 *     press         when no token "press" is alive that may subscribe
 *     everyone, ""  when clients without a token may not subscribe. "" is a
 *                   client of an open broker: its first token leaves only those
 *                   subscriptions that everyone may have
 *     with a ":"    when the principal ends; after a restart, at the time in
 *                   hub.db: there is no such token (principal.h)
 *
 * hub.db keeps name, time and requester, so a token that ended while the broker
 * was down, or was killed, ends its subscriptions at the start.
 */

/* All zero: that of an open broker. */
struct subscriber_token {
    char requester[CLIENT_NAME_SIZE]; /* client_name of the client that counts
                                         without a token; "": the hub */
    char *name;                       /* NULL: "" */
    int64_t ends_us;                  /* of a name with a colon */
    struct principal *principal; /* as of the last look: a reference, which may
                                    subscribe until its end; NULL: none */
    struct client
        *client; /* subscriber_token_client's; NULL: not asked for yet */
};

void subscriber_token_init(struct subscriber_token *owner, struct slice name,
                           int64_t ends_us, struct slice requester);
void subscriber_token_fini(struct subscriber_token *owner);

/* The name, terminated. */
const char *subscriber_token_name(const struct subscriber_token *owner);

/* The client for limits, and for turns: lent until subscriber_token_fini. */
struct client *subscriber_token_client(struct subscriber_token *owner,
                                       struct clients *clients);

enum topic_kind { TOPIC_CHANGES, TOPIC_FRAMEWORK, TOPIC_FOREIGN };

struct topic {
    struct list node; /* in hub->topics */
    struct hub *hub;
    enum topic_kind kind;
    struct set *set;               /* of TOPIC_CHANGES and _FRAMEWORK */
    struct foreign_topic *foreign; /* of TOPIC_FOREIGN */
    char epoch[EPOCH_SIZE + 1];    /* of a set: head.origin */
    struct map_node of_set; /* hub->topics_of_sets, unless it is foreign */

    struct watched_channel news; /* watched: the set's log, of TOPIC_CHANGES */

    /* Of TOPIC_FRAMEWORK, when its set was removed: subscriptions still read
     * the events up to `end`, and then end. */
    bool is_ending;
    uint64_t end;

    struct list subscriptions, requests; /* by key.of_topic */
    struct list busy; /* those that do not rest: subscription->busy */
    unsigned n_holds; /* functions that keep it */
    char *links; /* delivery.c: the Link header of its callbacks; NULL: not made
                    yet */
};

/* Finds the topic with that URL, compared as in W-026: of a set that exists for
 * the principal (NULL: the broker), or of a relay.
 * Makes *topic if necessary: call topic_release when nothing uses it.
 * STATUS_NOT_FOUND: none; STATUS_INVALID: one of our own URLs, but no topic
 * (the message says what to subscribe to), or another spelling... */
MUST_CHECK enum status topic_find(struct hub *hub, struct slice url,
                                  const struct principal *principal,
                                  struct topic **topic, struct problem *why);
MUST_CHECK enum status topic_of_set(struct hub *hub, enum topic_kind kind,
                                    struct set *set, struct topic **topic,
                                    struct problem *why);
struct topic *topic_of_foreign(struct hub *hub, struct foreign_topic *foreign);

/* Frees the topic if it has neither subscriptions nor requests. */
void topic_release(struct topic *topic);

/* Returns the existing topic of that kind and set, or NULL. */
struct topic *topic_look(struct hub *hub, enum topic_kind kind,
                         const struct set *set);

/* Has news mark the topic from now on; look at its head after this call. Called
 * when the first subscription begins: without one no wake is needed, and before
 * there is a thread there is none to wake. The watch of framework topics begins
 * behind all their subscriptions, and ends with the first event that finds no
 * framework topic. */
void topic_listen(struct topic *topic);

/* The name of its set or relay. */
struct slice topic_name(const struct topic *topic);

/* True if the owner of a subscription may have it, the same at each call. */
bool topic_admits(const struct topic *topic, struct subscriber_token *owner,
                  int64_t now_us);

/* Appends its canonical URL (rel=self), and the URL of the hub that its
 * deliveries name (rel=hub). */
void topic_write_url(struct buf *to, const struct topic *topic);
void topic_write_hub(struct buf *to, const struct topic *topic);

/* Called when its set was removed. A framework topic accepts no further
 * events. */
void topic_end(struct topic *topic);

/* Sets *last to the seq of the last entry, 0: none. Returns false if the topic
 * is gone (its set was removed, or removed and made again), except after
 * topic_end. */
bool topic_head(const struct topic *topic, uint64_t *last);

/* Writes the epoch of its positions, which subscribers see. */
void topic_epoch(const struct topic *topic, char to[EPOCH_SIZE + 1]);

/* True if a subscription to the log with that epoch is one to this topic. */
bool topic_has_epoch(const struct topic *topic, struct slice epoch);

/* The position of the earliest entry that can be read. */
uint64_t topic_earliest(const struct topic *topic);

/* Checks a position that a subscriber gave. As positions_judge. */
MUST_CHECK enum status topic_judge(const struct topic *topic,
                                   struct slice position, uint64_t *after,
                                   struct problem *why);

/* The topic as a channel of shared messages. */
struct channel topic_channel(const struct topic *topic);

/* Makes a message of a topic's channel: shared_calls.make. It is empty if the
 * filter passes nothing up to message->last, or at the head. Workers may call
 * it, but not for a relay: hub.db has its documents, which the delivery thread
 * reads at once. */
MUST_CHECK enum status topic_make(struct shared_message *message,
                                  enum log_patience patience,
                                  struct problem *why);

/* struct hub has one. */
struct framework {
    struct watch watch;
    struct log_set *log; /* of all framework events */
    atomic_bool has_news;
    uint64_t seen;           /* the topics of events up to here were marked */
    struct reading *reading; /* a worker's; NULL: none */
};

/* Ends the watch; no framework topic is left. Or begins it again, behind all
 * subscriptions: some that came later are further behind. */
void framework_close(struct hub *hub);
void framework_restart(struct hub *hub);

/* Looks at new events, and marks the topics that they concern. Each look is
 * short: if there are many events the next wake goes on, and a worker first
 * reads those that are not in memory. */
void framework_look(struct hub *hub);

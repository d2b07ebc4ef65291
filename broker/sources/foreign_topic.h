/*
 * foreign_topic.h - topics of others, which operators call relays: documents of
 * a foreign Source, of any media type, kept in hub.db in the order they came,
 * and delivered as they are, one by one.
 *
 * A document comes by POST to /hub (a fat ping, R-293), or the hub fetches it
 * from the topic's URL after a ping of the Source (W-121, W-123). The topic
 * keeps the latest documents, by count and bytes (--relay-documents,
 * --relay-bytes): a subscription that is further behind moves to the oldest,
 * and its `skipped` grows.
 *
 * A repeated document is kept once. A repeat has the key of a kept document, or
 * no key and the bytes of the latest document (as when a Source repeats it
 * because our answer was lost).
 *
 * A change becomes visible when its turn is kept:
 *
 *     PUT --> NEW --kept--> KEPT --DELETE--> LEAVING --kept--> GONE
 *                \--lost--> freed  ^-----------lost-----/
 *
 * Documents likewise: `draft` runs ahead of `kept`, which may be delivered.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/calls/caller.h"
#include "broker/readers/marks.h"
#include "broker/sets/registry.h"
#include "broker/sources/command.h"
#include "broker/sources/hub_db.h"
#include "proto/http/idempotency_key.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* The most foreign topics: a search compares one after the other. */
#define FOREIGN_TOPICS_MAX 1000

/* The most bytes of a document. The delivery thread writes it, and reads it for
 * deliveries, while all others wait (some 20 ms). */
#define FOREIGN_DOCUMENT_MAX ((size_t)8 << 20)

/* Longest media type that is kept. */
#define DOCUMENT_TYPE_MAX 255

enum foreign_topic_state {
    FOREIGN_NEW,
    FOREIGN_KEPT,
    FOREIGN_LEAVING,
    FOREIGN_GONE
};

/* The kept documents of a topic: those behind `earliest`. */
struct documents_sum {
    uint64_t earliest, last;
    uint64_t bytes;
    int64_t last_us; /* when the last document came; 0: none */
    struct digest last_digest;
};

struct foreign_topic {
    struct list node; /* topics->all, or ->gone */
    struct foreign_topics *topics;
    uint64_t id; /* its row in hub.db */
    char name[SET_NAME_MAX + 1];
    char *url;                  /* as registered: rel=self */
    char *hub_url;              /* the name that its Source has for us:
                                   rel=hub */
    char epoch[EPOCH_SIZE + 1]; /* of its log */
    struct documents_sum kept;  /* deliveries read these */

    /* The hub's, while the topic has subscriptions or requests; else NULL. */
    struct topic *topic;
    struct watched_log *news; /* of `topic`: marked with each document */
    size_t n_subscriptions;

    /* Of foreign_topic.c */
    enum foreign_topic_state state; /* FOREIGN_GONE: subscriptions and requests
                                       that still point here find no head; freed
                                       at the end */
    struct list changed;            /* in this turn */
    char *comparable;               /* the URL in its normal form */
    struct upstream *claim; /* reserves the URL; NULL: a set has it, too, given
                               by a broker without this topic */
    char *new_hub_url;      /* valid when this turn is kept; or NULL */
    struct documents_sum draft;
};

struct foreign_topics {
    struct registry *registry;
    struct hub_db *db;
    struct caller *caller; /* the delivery thread's; NULL before there is one */
    struct list all;
    bool has_lost_some; /* some are gone since the hub has looked */

    /* Of foreign_topic.c */
    struct hub_db_hook hook;
    struct list changed;              /* topics that this turn has changed */
    struct list gone;                 /* FOREIGN_GONE, by node */
    struct alarm alarm;               /* deletes their rests in steps */
    char type[DOCUMENT_TYPE_MAX + 1]; /* of the document read last */
};

/* foreign_topics_read reads all topics from hub.db; also before there is a
 * thread. foreign_topics_leave makes all of them FOREIGN_GONE, since another
 * broker has them from now on; their subscriptions and requests have ended.
 * foreign_topics_close frees them when the thread and all subscriptions have
 * ended; it is harmless before foreign_topics_open. */
void foreign_topics_open(struct foreign_topics *topics,
                         struct registry *registry, struct hub_db *db);
MUST_CHECK enum status foreign_topics_read(struct foreign_topics *topics,
                                           struct problem *why);
void foreign_topics_leave(struct foreign_topics *topics);
void foreign_topics_close(struct foreign_topics *topics);

/* Finds the topic with that name, or that URL (valid, compared as in W-026).
 * Ignores topics that are new in this turn. */
struct foreign_topic *foreign_topic_find(struct foreign_topics *topics,
                                         struct slice name);
struct foreign_topic *foreign_topic_of_url(struct foreign_topics *topics,
                                           struct slice url);

/* Takes in a document, which this turn's transaction keeps; a repeated document
 * is no error and changes nothing. `key` may be of size 0; `digest` is the
 * body's. STATUS_MALFORMED: the body is empty, or `type` is not valid;
 * STATUS_TOO_LARGE: over --relay-bytes or FOREIGN_DOCUMENT_MAX; STATUS_INVALID:
 * another document has the key. */
MUST_CHECK enum status
foreign_topic_take(struct foreign_topic *topic, struct slice type,
                   const struct key *key, struct slice body,
                   const struct digest *digest, struct problem *why);

/* Appends document `after` + 1; nothing at the head. STATUS_GONE: it is no
 * longer kept. *content_type is lent until the next call. */
MUST_CHECK enum status foreign_topic_read(struct foreign_topic *topic,
                                          uint64_t after, struct buf *to,
                                          const char **content_type,
                                          struct problem *why);

/* Sets the metrics of relays. Looks at each: FOREIGN_TOPICS_MAX. */
void foreign_topics_measure(const struct foreign_topics *topics);

/* Runs and answers COMMAND_RELAY_PUT, _SHOW, _LIST or _REMOVE. This turn's
 * transaction keeps the changes. */
void foreign_topic_run(struct foreign_topics *topics, struct command *command);

/* A relay as PUT takes it, and as it is shown. */
extern const struct json_shape relay_request_shape, relay_shape, relays_shape;

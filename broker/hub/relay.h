/*
 * relay.h - relay topics: documents of a foreign Source, of any media type,
 * kept in hub.db in the order they came, and delivered as they are, one by one
 * (R-296).
 *
 * A document comes by POST to /hub (a fat ping, R-293), or the hub fetches it
 * from the topic's URL after a ping of the Source (W-121, W-123). The relay
 * keeps the latest documents, by count and bytes (--relay-documents,
 * --relay-bytes): a subscription that is further behind moves to the oldest,
 * and its `skipped` grows.
 *
 * A relay keeps a repeated document once. A repeat has the key of a kept
 * document, or no key and the bytes of the latest document (as when a Source
 * repeats it because our answer was lost).
 *
 * A change becomes visible when its turn is kept:
 *
 *     relay_put --> NEW --kept--> KEPT --relay_remove--> LEAVING --kept--> gone
 *                    \--lost--> gone  ^-------lost----------/
 *
 * Documents likewise: `draft` runs ahead of `kept`, which may be delivered.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_RELAY_H
#define BROKER_HUB_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/hub/command.h"
#include "broker/hub/hub_db.h"
#include "proto/buf.h"
#include "proto/http/idempotency_key.h"
#include "proto/problem.h"
#include "proto/resourcesync/position.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

struct hub;
struct topic;
struct upstream;

/* The most relays: a search compares one after the other. */
#define RELAYS_MAX 1000

/* The most bytes of a document. The delivery thread writes it, and reads it for
 * deliveries, while all others wait (some 20 ms). */
#define RELAY_DOCUMENT_MAX ((size_t)8 << 20)

enum relay_state { RELAY_NEW, RELAY_KEPT, RELAY_LEAVING, RELAY_GONE };

struct relay {
    struct list node; /* hub->relays */
    struct hub *hub;
    uint64_t id; /* its row in hub.db */
    char name[SET_NAME_MAX + 1];
    char *topic_url;            /* as registered: rel=self */
    char *hub_url;              /* the name that its Source has for us:
                                   rel=hub */
    char epoch[EPOCH_SIZE + 1]; /* of its log */
    struct documents_sum kept;  /* deliveries read these */
    struct topic *topic;        /* while it has subscriptions; or NULL */

    /* Of relay.c */
    enum relay_state state; /* RELAY_GONE: topics and requests that still point
                               here find no head; freed at the end */
    struct list changed;    /* in this turn */
    char *comparable;       /* the topic in its normal form */
    struct upstream *claim; /* reserves the topic; NULL: a set has the topic,
                               too, given by a broker without this relay */
    char *new_hub_url;      /* valid when this turn is kept; or NULL */
    struct documents_sum draft;
};

/* relay_load reads all relays from hub.db, before there is a thread.
 * relay_close frees them when the thread and all subscriptions have ended. */
MUST_CHECK enum status relay_load(struct hub *hub, struct problem *why);
void relay_close(struct hub *hub);

/* Finds the relay with that name, or that topic (a valid URL, compared as in
 * W-026). Ignores relays that are new in this turn. */
struct relay *relay_find(struct hub *hub, struct slice name);
struct relay *relay_of_topic(struct hub *hub, struct slice url);

/* Takes in a document, which this turn's transaction keeps; a repeated document
 * is no error and changes nothing. `key` may be of size 0; `digest` is the
 * body's. STATUS_MALFORMED: the body is empty, or `type` is not valid;
 * STATUS_TOO_LARGE: over --relay-bytes or RELAY_DOCUMENT_MAX; STATUS_INVALID:
 * another document has the key. */
MUST_CHECK enum status relay_take(struct relay *relay, struct slice type,
                                  const struct key *key, struct slice body,
                                  const struct digest *digest,
                                  struct problem *why);

/* Appends document `after` + 1; nothing at the head. STATUS_GONE: it is no
 * longer kept. *content_type is lent until the next call. */
MUST_CHECK enum status relay_read(struct relay *relay, uint64_t after,
                                  struct buf *to, const char **content_type,
                                  struct problem *why);

/* Sets the metrics of relays. Looks at each: RELAYS_MAX. */
void relay_measure(struct hub *hub);

/* Run and answer the commands COMMAND_RELAY_PUT, _SHOW, _LIST, _REMOVE. This
 * turn's transaction keeps the changes. */
void relay_put(struct command *command);
void relay_show(struct command *command);
void relay_list(struct command *command);
void relay_remove(struct command *command);

/* What a client asks for; all URLs are valid. */
struct relay_wish {
    struct slice name, topic;
    struct slice hub_url; /* empty: our own URL */
};

/* Makes a relay (*is_new), or changes the hub's URL of an existing one.
 * STATUS_RUNNING: it has another topic, or is being removed, or the topic
 * belongs to another; STATUS_INVALID: there are RELAYS_MAX. */
MUST_CHECK enum status relay_make(struct hub *hub,
                                  const struct relay_wish *wish,
                                  struct relay **relay, bool *is_new,
                                  struct problem *why);
MUST_CHECK enum status relay_unmake(struct relay *relay, struct problem *why);

#endif

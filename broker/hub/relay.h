/*
 * relay.h - relay topics: documents of a foreign Source, of any media type,
 * kept in hub.db in the order they came, and delivered as they are, one by one
 * (R-296).
 *
 * A document comes by POST to /hub (a fat ping, R-293), or is fetched from the
 * topic's URL when the Source says that it has changed (W-121, W-123). Kept are
 * the latest ones, by count and bytes (--relay-documents, --relay-bytes): a
 * subscription that is further behind is moved to the oldest, and told so by
 * its `skipped`.
 *
 * A document that comes again is kept once: its key is that of a kept one, or
 * it has none and is byte for byte the latest one (a Source that did not hear
 * our answer repeats it so, and knows no better).
 *
 * What a turn changes is visible when it is kept:
 *
 *     relay_put --> NEW --kept--> KEPT --relay_remove--> LEAVING --kept--> gone
 *                    \--lost--> gone  ^-------lost----------/
 *
 * and documents likewise: `draft` runs ahead of what may be delivered.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_RELAY_H
#define BROKER_HUB_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/hub/order.h"
#include "broker/hub/records.h"
#include "broker/hub/relay_records.h"
#include "proto/buf.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

struct hub;
struct topic;
struct upstream;

/* Relays at most: they are searched one by one. */
#define RELAYS_MAX 1000

/* Bytes of a document at most: it is written, and read for its deliveries, on
 * the delivery thread, where all others wait meanwhile (some 20 ms). */
#define RELAY_DOCUMENT_MAX ((size_t)8 << 20)

enum relay_state { RELAY_NEW, RELAY_KEPT, RELAY_LEAVING, RELAY_GONE };

struct relay {
    struct list node; /* hub->relays */
    struct hub *hub;
    uint64_t id; /* its row in hub.db */
    char name[SET_NAME_MAX + 1];
    char *topic_url;            /* as registered: rel=self */
    char *hub_url;              /* what its Source calls us: rel=hub */
    char epoch[EPOCH_SIZE + 1]; /* of its log */
    uint64_t earliest, last;    /* seqs: kept is what follows earliest */
    struct topic *topic;        /* while it has subscriptions; or NULL */

    /* relay.c's. */
    enum relay_state state; /* RELAY_GONE: topics and requests that still point
                               here find no head; freed at the end */
    struct list changed;    /* in this turn */
    char *comparable;       /* the topic as it is compared */
    struct upstream *claim; /* nobody else's topic; NULL: it is, since a broker
                               without this relay gave it to a set */
    char *new_hub_url;      /* from when the turn is kept on; or NULL */
    struct documents_sum kept, draft;
};

/* Learns all relays from hub.db, before there is a thread; frees them, when
 * there is none any more, after all subscriptions. */
MUST_CHECK enum status relay_load(struct hub *hub, struct problem *why);
void relay_close(struct hub *hub);

/* The relay of that name, or with that topic (compared as W-026 says; a valid
 * URL), if it is there: not one that is new in this turn. */
struct relay *relay_find(struct hub *hub, struct slice name);
struct relay *relay_of_topic(struct hub *hub, struct slice url);

/* Takes in a document, which is kept with this turn's transaction; or finds
 * that it has come before, which is no error. `key` may be empty; `digest` is
 * the body's. STATUS_MALFORMED: it is empty, or `type` or `key` is none;
 * STATUS_TOO_LARGE: over --relay-bytes or RELAY_DOCUMENT_MAX; STATUS_INVALID:
 * the key was given to another document. */
MUST_CHECK enum status relay_take(struct relay *relay, struct slice type,
                                  struct slice key, struct slice body,
                                  const struct digest *digest,
                                  struct problem *why);

/* Appends document `after` + 1, or, where that is no longer kept, STATUS_GONE;
 * nothing at the head. *content_type is lent until the next call. */
MUST_CHECK enum status relay_read(struct relay *relay, uint64_t after,
                                  struct buf *to, const char **content_type,
                                  struct problem *why);

/* The orders ORDER_RELAY_PUT, _SHOW, _LIST, _REMOVE: fill in the outcome. What
 * they change is kept with this turn's transaction. */
void relay_put(struct order *order);
void relay_show(struct order *order);
void relay_list(struct order *order);
void relay_remove(struct order *order);

/* For relay_order.c and relay_documents.c */

struct relaying {
    struct hub *hub;
    struct relay_records *records;
    struct records_hook hook;
    struct list changed; /* relays that this turn has changed */
    struct list gone;    /* RELAY_GONE, by node */
    struct alarm alarm;  /* what those leave behind is swept in steps */
    char type[DOCUMENT_TYPE_MAX + 1]; /* of the document that was read last */
};

/* The relay is different when this turn is kept: begins what is to be written.
 * false: it will not be kept, and nothing may be written (records_touch). */
MUST_CHECK bool relay_touch(struct relay *relay);

/* Makes a relay (then *relay is new), or finds it. STATUS_RUNNING: it has
 * another topic, or is being removed, or the topic is somebody else's;
 * STATUS_INVALID: there are RELAYS_MAX. URLs are valid; `hub_url` may be empty:
 * our own. */
MUST_CHECK enum status relay_make(struct hub *hub, struct slice name,
                                  struct slice topic, struct slice hub_url,
                                  struct relay **relay, bool *is_new,
                                  struct problem *why);
MUST_CHECK enum status relay_unmake(struct relay *relay, struct problem *why);

#endif

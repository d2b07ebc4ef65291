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
 * The delivery thread's.
 */
#ifndef BROKER_HUB_RELAY_H
#define BROKER_HUB_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/list.h"
#include "broker/hub/order.h"
#include "proto/buf.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

struct hub;
struct topic;

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
};

/* Learns all relays from hub.db, before there is a thread; frees them, when
 * there is none any more, after all subscriptions. */
MUST_CHECK enum status relay_load(struct hub *hub, struct problem *why);
void relay_close(struct hub *hub);

/* The relay of that name, or with that topic (compared as W-026 says). */
struct relay *relay_find(struct hub *hub, struct slice name);
struct relay *relay_of_topic(struct hub *hub, struct slice url);

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

#endif

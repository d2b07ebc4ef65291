/*
 * source.h - a foreign Source that was active lately: whether it is believed,
 * its last fetched document, its documents on their way in.
 *
 * A struct exists for each registered topic that a notification or ping has
 * named, until an hour after the last one. (Then the hub asks again: with
 * another HEAD, and a fetch without conditions.)
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_SOURCE_H
#define BROKER_HUB_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/calls/caller.h"
#include "broker/hub/order.h"
#include "broker/hub/relay.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/digest.h"
#include "proto/slice.h"
#include "proto/status.h"

struct hub;

/* Lists that the sources are spread over. */
#define SOURCES_LISTS 1024

/* The most redirects of a Source's topic that a call follows. */
#define SOURCE_REDIRECTS 3

struct foreign {
    struct hub *hub;
    struct list sources[SOURCES_LISTS];

    /* fetch.c: sources whose topic waits to be fetched, by
     * source->fetch_node. */
    struct list to_fetch;
    unsigned n_fetching;
    struct list fetched; /* sources whose document a relay has taken in this
                            turn, by source->fetched_node */
    struct hub_db_hook hook;

    /* document_intake.c: between the log thread and this one. */
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    struct list committed; /* intakes, by node */
    struct task task;      /* posted while is_posted */
    bool is_posted;
    bool is_ending;
    unsigned n_in_log;
};

struct source {
    struct list node;
    struct foreign *foreign;
    char *url;        /* as registered */
    char *comparable; /* in its normal form */
    int64_t used_us;  /* steady */
    struct alarm forget;

    /* source.c: HEAD, and the orders that wait for it, by order->task.node. */
    struct call head;
    bool is_asking;
    struct list asking;
    int64_t believed_until_us; /* steady */
    char *believed_hub;        /* its name for us; or NULL */

    /* fetch.c */
    struct list fetch_node, fetched_node;
    struct call get;
    bool is_fetching;
    bool is_fetch_wanted; /* another ping came meanwhile: fetch once more */
    unsigned fetch_tries;
    struct alarm retry;
    unsigned n_fetched;         /* bodies */
    char *etag, *last_modified; /* of the last body. When its intake ended: its
                                   digest, and the set that took it (a relay
                                   knows its own): */
    struct digest fetched;
    const struct set *fetched_into; /* or NULL; only its address is compared */
    char header[2][1100];
    const char *headers[3];

    /* document_intake.c: documents on their way in; the first one is at work.
     */
    struct list intakes;
    const struct set *taken_into; /* the set that took the last one; or NULL. A
                                     set that was removed and made again is
                                     another set */
    bool is_taken_fetched;
    struct digest taken;
};

/* The owner of a topic now: a set or a relay, or neither. */
struct target {
    struct relay *relay;
    struct set *set;
};

struct target source_target(struct hub *hub, struct slice url);

static inline bool
target_is_none(const struct target *target)
{
    return !target->relay && !target->set;
}

/* Appends the URL of the hub that the Source of this target must name. */
void target_write_hub(struct buf *to, struct hub *hub,
                      const struct target *target);

/* True if both valid URLs are the same, compared as in W-026. */
bool source_is_same(struct slice a, struct slice b);

/* Finds or makes the source of a registered topic; NULL: no memory. */
struct source *source_of(struct foreign *foreign, struct slice url,
                         const struct target *target);

/* True if the Source has named us as its hub, not long ago. */
bool source_is_believed(const struct source *source, struct slice hub);

/* Asks the Source by HEAD of its topic. Then foreign_go_on gets the
 * order, with order->status and http set if the Source does not name us. */
void source_ask(struct source *source, struct order *order);

/* At the end: answers waiting orders, and frees all. */
void sources_free(struct foreign *foreign);

/* foreign.c: goes on with an order when its Source was asked. */
void foreign_go_on(struct source *source, struct order *order);

#endif

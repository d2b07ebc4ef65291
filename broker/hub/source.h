/*
 * source.h - a foreign Source, as far as it has told us something lately: is it
 * believed, what was fetched from it, what is on its way in.
 *
 * One struct per registered topic that somebody named in a notification or
 * ping; an hour after the last time it is forgotten. (What is forgotten is
 * asked again: HEAD once more, a fetch without conditions.)
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_SOURCE_H
#define BROKER_HUB_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/hub/order.h"
#include "broker/hub/relay.h"
#include "broker/net/caller.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/hash.h"
#include "proto/slice.h"
#include "proto/status.h"

struct hub;

/* Lists that sources are spread over. */
#define SOURCES_LISTS 1024

/* Redirects of a Source's topic that are followed. */
#define SOURCE_REDIRECTS 3

struct foreign {
    struct hub *hub;
    struct list sources[SOURCES_LISTS];

    /* fetch.c: sources whose topic is to be fetched, by source->fetch_node. */
    struct list to_fetch;
    unsigned n_fetching;
    struct list fetched; /* whose document a relay has taken in this turn, by
                            source->fetched_node */
    struct records_hook hook;

    /* intake.c: between the log thread and this one. */
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
    char *url;        /* as it was registered */
    char *comparable; /* as it is compared */
    int64_t used_us;  /* steady */
    struct alarm forget;

    /* source.c: HEAD, and who waits for it, by order->task.node. */
    struct call head;
    bool is_asking;
    struct list asking;
    int64_t believed_until_us; /* steady */
    char *believed_hub;        /* what it calls us; or NULL */

    /* fetch.c */
    struct list fetch_node, fetched_node;
    struct call get;
    bool is_fetching;
    bool is_fetch_wanted; /* a ping came meanwhile: once more */
    unsigned fetch_tries;
    struct alarm retry;
    unsigned n_fetched;         /* bodies */
    char *etag, *last_modified; /* of the last one; and once that was looked at
                                   (intake.c), its digest, and which set's log
                                   has it (a relay tells by itself): */
    struct digest fetched;
    const struct set *fetched_into; /* or NULL; only its address is used */
    char header[2][1100];
    const char *headers[3];

    /* intake.c: documents on their way in, the first one is at work. */
    struct list intakes;
    const struct set *taken_into; /* whose log has the last one; or NULL. A set
                                     that was made anew is another */
    bool is_taken_fetched;
    struct digest taken;
};

/* Whose topic it is now: one of both, or none. */
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

/* Appends the URL of the hub that the Source of a target has to name. */
void target_write_hub(struct buf *to, struct hub *hub,
                      const struct target *target);

/* Are both the same URL, as W-026 compares? Both are valid. */
bool source_is_same(struct slice a, struct slice b);

/* The source of a registered topic; NULL: no memory. */
struct source *source_of(struct foreign *foreign, struct slice url,
                         const struct target *target);

/* Has the Source said, not long ago, that we are its hub? */
bool source_is_believed(const struct source *source, struct slice hub);

/* Asks it, by HEAD of its topic; then `go_on` gets the order back, with
 * order->status and http set if it does not say so. */
void source_ask(struct source *source, struct order *order);

/* At the end: what waits is answered, all is freed. */
void sources_free(struct foreign *foreign);

/* foreign.c: the Source of an order was asked. */
void foreign_go_on(struct source *source, struct order *order);

#endif

/*
 * bodies.h - bodies of deliveries. A body is made once for all subscriptions at
 * the same position, is never changed, and is shared while a delivery holds it.
 *
 * The topic, the filter, the form and the covered range (after, last] determine
 * the bytes of a body, so a released body can be made again. If a filter passes
 * nothing of a part of the log, the body is empty: it is not sent, and its
 * `last` says how far that part reaches.
 *
 * Memory: held bodies count. A new body is made while their bytes are below
 * --hub-body-bytes; so one body, or the bodies being read at that moment
 * (loads.h), may exceed it. Deliveries whose last try failed (suspects) may
 * hold at most half of it: however many of them hang, the others have room
 * (W-092). A few bodies that nobody holds are kept for subscriptions that reach
 * the same position a little later.
 *
 * The delivery thread's, but shared_body_make.
 */
#ifndef BROKER_HUB_BODIES_H
#define BROKER_HUB_BODIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/hub/topic.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Limits of the bodies that are kept although nobody holds them. */
#define BODIES_KEPT       32
#define BODIES_KEPT_BYTES ((size_t)4 << 20)

#define BODIES_BUCKETS 512

struct shared_body {
    struct list node; /* in its bucket */
    struct list idle; /* in bodies->idle, least recently held first; or alone */
    enum topic_kind kind;
    const struct set *set;      /* only its address is compared */
    char epoch[EPOCH_SIZE + 1]; /* distinguishes one relay's bodies from
                                   another's */
    uint64_t filter_id;         /* 0: none */
    bool is_plain;
    uint64_t after, start; /* covers the entries behind `after`; nothing up to
                              `start` passes the filter */
    uint64_t last;
    bool is_full;         /* it ended at the size limit, not at the head */
    int64_t committed_us; /* commit time of its first entry (batch.h); 0:
                             unknown */
    char type[128];       /* Content-Type */
    char *data;
    size_t size; /* 0: nothing is sent */

    unsigned holders[2]; /* counts of healthy holders and of suspects */
    unsigned guards;     /* callers that are about to hold it */
};

struct bodies {
    struct list buckets[BODIES_BUCKETS];
    struct list idle;
    unsigned n_idle;
    size_t idle_bytes;
    size_t held_bytes, suspect_bytes; /* held by anybody; held by suspects */
    size_t max_bytes;
};

void bodies_init(struct bodies *bodies, size_t max_bytes);
void bodies_fini(struct bodies *bodies); /* none is held */

/* Finds an existing body for a wish and guards it; NULL if there is none.
 * `head` is the topic's: a body that ended before it, and not at the size
 * limit, lacks newer entries and does not serve. */
struct shared_body *bodies_find(struct bodies *bodies,
                                const struct topic *topic,
                                const struct topic_wish *wish, uint64_t head);

/* Makes a body. *last and the errors are those of topic_read. Runs on any
 * thread, as topic_read does. */
MUST_CHECK enum status shared_body_make(struct shared_body **body,
                                        const struct topic *topic,
                                        const struct topic_wish *wish,
                                        uint64_t *last, struct problem *why);
/* Frees a body that was not adopted. NULL is allowed. */
void shared_body_free(struct shared_body *body);

/* Adds a new body, with a guard. */
void bodies_adopt(struct bodies *bodies, struct shared_body *body);

/* Ends the guard: from now on only its holders keep the body. */
void bodies_settle(struct bodies *bodies, struct shared_body *body);

/* True if the body serves this wish. */
bool shared_body_serves(const struct shared_body *body,
                        const struct topic *topic,
                        const struct topic_wish *wish);

/* True if one more body (NULL: a new one) may be held. */
bool bodies_have_room(const struct bodies *bodies,
                      const struct shared_body *body, bool is_suspect);

void bodies_hold(struct bodies *bodies, struct shared_body *body,
                 bool is_suspect);
void bodies_release(struct bodies *bodies, struct shared_body *body,
                    bool is_suspect);

/* Counts the entries of the body: all that it covers, or with a filter those
 * that pass. */
uint64_t shared_body_entries(const struct shared_body *body);

static inline struct slice
shared_body_slice(const struct shared_body *body)
{
    return (struct slice){body->data, body->size};
}

#endif

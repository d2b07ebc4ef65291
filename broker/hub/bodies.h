/*
 * bodies.h - what is delivered: made once for all who stand at the same place,
 * never changed, shared while somebody holds it.
 *
 * The bytes of a body are a function of topic, filter, form and of the range it
 * covers, (after, last]: whoever lets go of one has it made again. The body of
 * a part of the log that a filter lets nothing through of is empty: it is not
 * sent, but tells how far that part reaches.
 *
 * Memory: what is held counts; a new body is made while that is less than
 * --hub-body-bytes, so it is exceeded by one body, or by those being read at
 * that moment (loads.h), at most. Those whose last try failed (suspects) may
 * hold no more than half of it: however many of them hang, the others have
 * room (W-092). A few that nobody holds are kept for who comes to the same
 * place a little later.
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

/* Kept though nobody holds them. */
#define BODIES_KEPT       32
#define BODIES_KEPT_BYTES ((size_t)4 << 20)

#define BODIES_BUCKETS 512

struct shared_body {
    struct list node; /* in its bucket */
    struct list idle; /* in bodies->idle, least recently held first; or alone */
    enum topic_kind kind;
    const struct set *set;      /* only its address is looked at */
    char epoch[EPOCH_SIZE + 1]; /* so that no relay's is taken for another's */
    uint64_t filter_id;         /* 0: none */
    bool is_plain;
    uint64_t after, start; /* covers what follows `after`, of which nothing up
                              to `start` passes */
    uint64_t last;
    bool is_full;         /* it ended where it was full, not at the head */
    int64_t committed_us; /* of what it begins with (batch.h); 0: not known */
    char type[128];       /* Content-Type */
    char *data;
    size_t size; /* 0: nothing is sent */

    unsigned holders[2]; /* healthy ones, suspects */
    unsigned guards;     /* it is being handed out */
};

struct bodies {
    struct list buckets[BODIES_BUCKETS];
    struct list idle;
    unsigned n_idle;
    size_t idle_bytes;
    size_t held_bytes, suspect_bytes; /* held by anybody; by suspects, too */
    size_t max_bytes;
};

void bodies_init(struct bodies *bodies, size_t max_bytes);
void bodies_fini(struct bodies *bodies); /* none is held */

/* The body for a wish that is there already, with a guard; or NULL. `head` is
 * the topic's: one that ended before it though there was room is not all that
 * waits. */
struct shared_body *bodies_find(struct bodies *bodies,
                                const struct topic *topic,
                                const struct topic_wish *wish, uint64_t head);

/* Makes one. *last: as by topic_read, whose errors these are. Any thread, as
 * topic_read. */
MUST_CHECK enum status shared_body_make(struct shared_body **body,
                                        const struct topic *topic,
                                        const struct topic_wish *wish,
                                        uint64_t *last, struct problem *why);
/* One that was not adopted. NULL is allowed. */
void shared_body_free(struct shared_body *body);

/* Takes a new body in, with a guard. */
void bodies_adopt(struct bodies *bodies, struct shared_body *body);

/* Ends the guard: nobody looks at it any more but those who hold it. */
void bodies_settle(struct bodies *bodies, struct shared_body *body);

/* Does the body serve this wish? */
bool shared_body_serves(const struct shared_body *body,
                        const struct topic *topic,
                        const struct topic_wish *wish);

/* May one more body (NULL: a new one) be held? */
bool bodies_have_room(const struct bodies *bodies,
                      const struct shared_body *body, bool is_suspect);

void bodies_hold(struct bodies *bodies, struct shared_body *body,
                 bool is_suspect);
void bodies_release(struct bodies *bodies, struct shared_body *body,
                    bool is_suspect);

/* How many entries it has: all that it covers, or, with a filter, those that
 * pass. */
uint64_t shared_body_entries(const struct shared_body *body);

static inline struct slice
shared_body_slice(const struct shared_body *body)
{
    return (struct slice){body->data, body->size};
}

#endif

/*
 * held.h - a message that was received, held until the log has answered for it.
 *
 * What the client lends is copied, and what the message means is settled at
 * once: its set, its media type, its key. An ingest is made of it as often as
 * it takes.
 *
 * The client's thread.
 */
#ifndef BROKER_BRIDGE_HELD_H
#define BROKER_BRIDGE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/bridge/mqtt.h"
#include "broker/config/bridging.h"
#include "broker/sets/ingest.h"
#include "proto/key.h"

struct held {
    struct list node;
    const char *topic; /* terminated; like all slices below in its own memory */
    struct slice set;
    struct slice type;    /* empty: nobody can tell what it is */
    struct slice payload; /* data NULL: larger than a post may be, not copied */
    struct key key;
    bool is_repeat;
    unsigned tries; /* that failed though no other post was there */

    struct ingest *ingest; /* NULL: it has none at the moment */

    /* The outcome, as far as it is known: of a key that is none from the
     * beginning, else of held_begin, or of the log. */
    enum status rc;
    struct problem why;
};

/* A message that came by that input, larger payloads than `payload_max` without
 * these. NULL: no memory. */
struct held *held_new(const struct mqtt_received *message,
                      const struct bridge_input *input, uint64_t payload_max);
void held_free(struct held *h); /* NULL is allowed */

/* Makes its ingest, and hands that to the log, which `line` keeps in order.
 * on_done as that of ingest_end; it is not called on failure. */
MUST_CHECK enum status
held_begin(struct held *h, struct registry *registry, struct post_line *line,
           void (*on_done)(struct ingest *ingest, void *user), void *user);

/* Frees the ingest, which is not the log's any more. */
void held_end(struct held *h);

/* The key of its post, also where that stood in the payload; empty: none. Until
 * held_end. */
struct slice held_key(const struct held *h);

/* Could what failed so succeed at another time? */
bool held_is_passing(enum status rc);

#endif

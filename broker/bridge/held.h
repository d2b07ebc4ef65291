/*
 * held.h - a message that was received, held until the log has answered for it.
 *
 * held_new copies the message, and finds its set, its media type and its key.
 * held_begin makes an ingest of it, as often as necessary.
 *
 * The client's thread.
 */
#ifndef BROKER_BRIDGE_HELD_H
#define BROKER_BRIDGE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "broker/sets/ingest.h"
#include "proto/idempotency_key.h"

struct held {
    struct list node;
    const char *topic; /* terminated; the slices below point into its own
                          memory, too */
    struct slice set;
    struct slice type;    /* empty: the type is unknown */
    struct slice payload; /* data NULL: it is larger than a post may be, and was
                             not copied */
    struct key key;
    bool is_repeat;
    unsigned tries; /* failed ones for which no other post was there */

    struct ingest *ingest; /* NULL: none now */

    /* The outcome so far: held_new's for an invalid key, else held_begin's, or
     * the log's. */
    enum status rc;
    struct problem why;
};

/* Copies a message that came by that input, without a payload larger than
 * `payload_max`. NULL: no memory. */
struct held *held_new(const struct mqtt_received *message,
                      const struct bridge_input *input, uint64_t payload_max);
void held_free(struct held *h); /* NULL is allowed */

/* Makes the ingest, and hands it to the log, in the order of `line`. on_done is
 * that of ingest_end; it is not called on failure. */
MUST_CHECK enum status
held_begin(struct held *h, struct registry *registry, struct post_line *line,
           void (*on_done)(struct ingest *ingest, void *user), void *user);

/* Frees the ingest, which the log has given back. */
void held_end(struct held *h);

/* The key of the post, also if it was in the payload; empty: none. Valid until
 * held_end. */
struct slice held_key(const struct held *h);

/* True if a later try may succeed after this failure. */
bool held_is_passing(enum status rc);

#endif

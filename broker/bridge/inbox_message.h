/*
 * inbox_message.h - a message that was received, held until the log has
 * answered for it.
 *
 * inbox_message_new copies the message, and finds its set, its media type and
 * its key. inbox_message_begin makes an ingest of it, as often as necessary.
 *
 * The client's thread.
 */
#ifndef BROKER_BRIDGE_INBOX_MESSAGE_H
#define BROKER_BRIDGE_INBOX_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "broker/posts/ingest.h"
#include "proto/idempotency_key.h"

struct inbox_message {
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

    /* The outcome so far: inbox_message_new's for an invalid key, else
     * inbox_message_begin's, or the log's. */
    enum status rc;
    struct problem why;
};

/* Copies a message that came by that input, without a payload larger than
 * `payload_max`. NULL: no memory. */
struct inbox_message *inbox_message_new(const struct mqtt_received *message,
                                        const struct bridge_input *input,
                                        uint64_t payload_max);
void inbox_message_free(struct inbox_message *h); /* NULL is allowed */

/* Makes the ingest, and hands it to the log, in the order of `line`. on_done is
 * that of ingest_end; it is not called on failure. */
MUST_CHECK enum status inbox_message_begin(
    struct inbox_message *h, struct posts *posts, struct post_line *line,
    void (*on_done)(struct ingest *ingest, void *user), void *user);

/* Frees the ingest, which the log has given back. */
void inbox_message_end(struct inbox_message *h);

/* The key of the post, also if it was in the payload; empty: none. Valid until
 * inbox_message_end. */
struct slice inbox_message_key(const struct inbox_message *h);

/* True if a later try may succeed after this failure. */
bool inbox_message_is_passing(enum status rc);

#endif

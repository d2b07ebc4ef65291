/*
 * inbox.h - unacknowledged messages on their way into the log.
 *
 *     inbox_add ... --> inbox_pass: ingest of each, one wake, wait for all
 *                          ^                     |
 *                          |                     +--> inbox_take, in order
 *                          +-- inbox_pause <-- a passing failure: from that
 *                                              message on again
 *
 * The log commits them in the order of their arrival, whatever their sets: the
 * posts of a pass are one line (log/post.h), and a pass ends at the first one
 * that cannot be handed to the log. If a message failed for a passing reason,
 * no later one is settled before it.
 *
 * After a pass that committed messages the next one follows at once; else after
 * a pause, each twice as long as the one before. A message that waits for
 * another one with the same key, or for memory that others hold, goes with the
 * next pass, without a pause.
 *
 * Memory: the messages given to inbox_add. Its caller settles when there are
 * INBOX_MESSAGES or INBOX_BYTES.
 *
 * The client's thread, unless stated otherwise.
 */
#pragma once

#include <pthread.h>

#include "broker/bridge/bridge_rights.h"
#include "broker/config/bridge_config.h"
#include "broker/log/post.h"
#include "broker/mqtt/mqtt.h"
#include "broker/posts/ingest.h"
#include "proto/http/idempotency_key.h"

/* A received message, held until the log has answered for it: its set, its
 * media type and its key are known. The inbox makes an ingest of it, as often
 * as necessary. */
struct inbox_message {
    struct list node;
    const char *topic; /* terminated; the slices below point into its own
                          memory, too */
    struct slice set;
    struct slice type;                  /* empty: the type is unknown */
    struct slice data_type, attributes; /* of a CloudEvent in binary mode
                                           (mqtt.h), whose type is EVENT_TYPE */
    struct slice payload; /* data NULL: it is larger than a post may be, and was
                             not copied */
    struct key key;
    bool is_repeat;
    unsigned tries; /* failed ones for which no other post was there */

    struct ingest *ingest; /* NULL: none now */

    /* The outcome so far: inbox_message_new's for an invalid key, else
     * the last ingest's, or the log's. */
    enum status rc;
    struct problem why;
};

/* Copies a message that came by that input, without a payload larger than
 * `payload_max`. NULL: no memory. */
struct inbox_message *inbox_message_new(const struct mqtt_received *message,
                                        const struct bridge_input *input,
                                        uint64_t payload_max);

/* The key of the post, also if it was in the payload; empty: none. Valid until
 * the ingest is freed. */
struct slice inbox_message_key(const struct inbox_message *h);

/* The caller settles a round that has so much, even if more can be read: the
 * log commits so much without effort, and the memory is bounded. */
#define INBOX_MESSAGES 1000
#define INBOX_BYTES    ((size_t)16 << 20)

/* Pauses after passes that committed nothing. */
#define INBOX_PAUSE_US     50000
#define INBOX_PAUSE_MAX_US 5000000

struct inbox {
    struct posts *posts;
    struct bridge_rights *rights; /* of every message */
    struct list messages;         /* struct inbox_message */
    struct list settled;          /* the same: inbox_take */
    size_t n, bytes;              /* of `messages` */
    struct post_line line;
    int64_t pause_us, until_us; /* the next pause; steady: the end of all */

    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t changed;
    unsigned pending; /* the log's */
    bool is_ending;
};

/* `rights` are lent until inbox_fini. */
void inbox_init(struct inbox *r, struct posts *posts,
                struct bridge_rights *rights);
void inbox_fini(struct inbox *r);

/* Makes the round stop after its present pass. Any thread. */
void inbox_end(struct inbox *r);

/* Adds a message, which the inbox owns from now on. */
void inbox_add(struct inbox *r, struct inbox_message *h);

/* Begins to settle all messages: pauses add up to `patience_us`. */
void inbox_begin(struct inbox *r, int64_t patience_us);

/* Makes one pass. Returns how many messages are settled: committed (h->rc is
 * 0), or failed for good. The others stay, and *why has the failure of the
 * first of them. */
size_t inbox_pass(struct inbox *r, struct problem *why);

/* Takes a message that is settled; NULL: there is none. inbox_message_key and
 * the ingest (NULL if there is none) are valid until inbox_message_free. */
struct inbox_message *inbox_take(struct inbox *r);
void inbox_message_free(struct inbox_message *h);

/* Pauses before the next pass. False: there was no time left, or inbox_end was
 * called: unsettled messages stay. */
bool inbox_pause(struct inbox *r);

/* Frees all messages of the round. */
void inbox_forget(struct inbox *r);

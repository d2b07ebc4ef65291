/*
 * inbound.h - messages of an MQTT broker become posts.
 *
 *   received ... --> inbox --> ingest ... --> committed --> acknowledged
 *                      ^                          |
 *                      +-- no room now: again ----+
 *
 * The client hands all messages of a round to the log together, and writes only
 * when the log has answered for all of them: first the acknowledgements (QoS
 * 1). So an acknowledged message is on disk, and another one comes again. The
 * client does not ask for QoS 2: libmosquitto would acknowledge before we have
 * seen the message.
 *
 * Repeats: the key of a message (correlation data, a user property, or the
 * member "id" of its JSON) is the idempotency key of its post, so a repeat is
 * kept once. Without a key a repeat looks like another message of the same
 * content: it is kept, and counted.
 *
 * The bridge reports a bad message on PREFIX/rejected, and acknowledges it. A
 * message that fails for a passing reason, as a full disk, waits: nothing
 * behind it is committed before it, and the MQTT broker holds later messages.
 *
 * Everything runs on the client's thread unless stated otherwise.
 */
#pragma once

#include "broker/bridge/mqtt_db.h"
#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "broker/posts/posts.h"

struct inbound;

/* Starts the client. `config` is lent until inbound_close. */
MUST_CHECK enum status inbound_open(struct inbound **in, struct posts *posts,
                                    struct mqtt_db *db,
                                    const struct bridge_config *config,
                                    struct problem *why);
/* inbound_end asks the client to end, and inbound_stop waits for that. A second
 * call does nothing; NULL is allowed. */
void inbound_end(struct inbound *in);
void inbound_stop(struct inbound *in);
/* Calls inbound_stop, and frees. */
void inbound_close(struct inbound *in);

struct inbound_report {
    struct mqtt_state mqtt;
    uint64_t received;  /* messages since the start */
    uint64_t posted;    /* messages whose changes were committed, and repeats
                           with a known key */
    uint64_t entries;   /* entries of those messages */
    uint64_t ignored;   /* messages: retained, our own, or without changes */
    uint64_t rejected;  /* messages */
    uint64_t repeats;   /* messages that may be repeats, and have no key */
    struct problem why; /* why the direction is stuck; "": it is not */
};

/* Any thread. */
void inbound_report(struct inbound *in, struct inbound_report *report);

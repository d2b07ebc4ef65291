/*
 * in.h - messages of an MQTT broker become posts.
 *
 *   received ... --> held --> ingest ... --> committed --> acknowledged
 *                     ^                          |
 *                     +-- no room now: again ----+
 *
 * All that one round of the client has read is handed to the log together, and
 * only when the log has answered for all of it may the client write: what it
 * then writes first are the acknowledgements (QoS 1). So a message that is
 * acknowledged is on disk, and one that is not comes again. QoS 2 is not asked
 * for: libmosquitto would acknowledge before we have seen the message.
 *
 * A repeat: the key of a message (correlation data, a user property, or the
 * member "id" of its JSON) is the idempotency key of its post, so it is kept
 * once. Without one nothing tells a repeat from another message of the same
 * content: it is kept, and counted.
 *
 * A bad message is told of on PREFIX/rejected, and acknowledged. What fails for
 * a passing reason, a full disk, is neither: nothing behind it is committed
 * before it, and the MQTT broker holds what comes meanwhile.
 *
 * All on the client's thread but what says otherwise.
 */
#ifndef BROKER_BRIDGE_IN_H
#define BROKER_BRIDGE_IN_H

#include <stdint.h>

#include "broker/bridge/ledger.h"
#include "broker/bridge/mqtt.h"
#include "broker/config/bridging.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

struct in;

/* Starts the client. `config` is lent as long as it lives. */
MUST_CHECK enum status in_open(struct in **in, struct registry *registry,
                               struct ledger *ledger,
                               const struct bridge_config *config,
                               struct problem *why);
void in_stop(struct in *in);  /* harmless twice; NULL is allowed */
void in_close(struct in *in); /* in_stop, frees */

struct in_report {
    struct mqtt_state mqtt;
    uint64_t received;  /* messages since the start */
    uint64_t posted;    /* messages whose changes were committed, repeats that a
                           key told included */
    uint64_t entries;   /* of them */
    uint64_t ignored;   /* messages: retained, our own, or without changes */
    uint64_t rejected;  /* messages */
    uint64_t repeats;   /* messages that may be repeats, and have no key */
    struct problem why; /* what keeps it from going on; "": nothing does */
};

/* Any thread. */
void in_report(struct in *in, struct in_report *report);

#endif

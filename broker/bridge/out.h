/*
 * out.h - the changes of sets go out to the topics of an MQTT broker.
 *
 * A lane (lane.h) is a set's cursor in this bridge. Those that have something
 * to tell take turns; a message is read from the log when there is room in the
 * window (window.h), published, and held there until it is acknowledged:
 *
 *   log --wake--> lane is ready --> message_write --> kept --> published
 *                   ^   (ledger.h: where it ends)                 |
 *                   +-- there is more              acknowledged <--+
 *                                                        |
 *                                        the lane's `acked` moves, is kept
 *
 * A connection that ends takes the window with it: every lane goes back to
 * `acked`, and goes over the same messages again, with the same ends, so that a
 * receiver finds its position among them. A message that the MQTT broker
 * refuses (MQTT 5: a reason, as where nobody may write to that topic) sets its
 * lane back, too, which then pauses; the others go on.
 *
 * Memory: the window has at most `inflight` messages, and WINDOW_BYTES; a lane
 * some 200 bytes. Nothing grows with what waits.
 *
 * All on the client's thread but what says otherwise.
 */
#ifndef BROKER_BRIDGE_OUT_H
#define BROKER_BRIDGE_OUT_H

#include <stdint.h>

#include "broker/bridge/ledger.h"
#include "broker/bridge/mqtt.h"
#include "broker/config/bridging.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

struct out;

/* Learns its lanes, starts the client. `config` is lent as long as it lives.
 * Where a lane begins that is not at its set's beginning has to be kept: if the
 * ledger cannot, this fails. */
MUST_CHECK enum status out_open(struct out **out, struct registry *registry,
                                struct ledger *ledger,
                                const struct bridge_config *config,
                                struct problem *why);
void out_stop(struct out *out);  /* harmless twice; NULL is allowed */
void out_close(struct out *out); /* out_stop, frees */

struct out_report {
    struct mqtt_state mqtt; /* as out_state */
    uint64_t sets;          /* lanes */
    uint64_t lag;           /* entries that are not acknowledged, of all sets */
    uint64_t sets_behind;   /* lanes with some */
    char slowest[65];       /* the set with most of them; "": none */
    uint64_t slowest_lag;
    uint64_t in_flight;    /* messages */
    uint64_t published;    /* messages since the start, repeats included */
    uint64_t acknowledged; /* messages */
    uint64_t refused;      /* messages, by the MQTT broker */
    uint64_t left_out;     /* entries too large for its packets, or no longer
                              retained */
};

/* Any thread. Looks at every lane. */
void out_report(struct out *out, struct out_report *report);

/* Its `mqtt` alone, at once; `why` of a connection that stands: a set of which
 * the MQTT broker refuses what is told. */
void out_state(struct out *out, struct mqtt_state *state);

#endif

/*
 * outbound.h - publishes the changes of sets on topics of an MQTT broker.
 *
 * A lane (lane.h) is a set's cursor in this bridge. Lanes with unpublished
 * entries take turns. When there is room in the window (flight_window.h), the
 * bridge reads a message from the log, publishes it, and holds it in the window
 * until it is acknowledged:
 *
 *   log --wake--> lane is ready --> message_write --> kept --> published
 *                   ^   (mqtt_db.h: where it ends)                 |
 *                   +-- there is more              acknowledged <--+
 *                                                        |
 *                                        the lane's `acked` moves, is kept
 *
 * The end of a connection clears the window: every lane goes back to `acked`,
 * and repeats the same messages with the same ends, so that a receiver finds
 * its position among them. If the MQTT broker refuses a message (MQTT 5: with a
 * reason, as for a topic that the bridge may not write to), its lane goes back,
 * too, and pauses; the others continue.
 *
 * Memory: the window has at most `inflight` messages, and FLIGHT_WINDOW_BYTES;
 * a lane some 200 bytes. Nothing grows with the number of waiting entries.
 *
 * Everything runs on the client's thread unless stated otherwise.
 */
#pragma once

#include "broker/bridge/mqtt_db.h"
#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "broker/sets/registry.h"

struct outbound;

/* Reads the lanes from mqtt.db, and starts the client. `config` is lent
 * until outbound_close. Fails if mqtt.db cannot store the beginning of a lane
 * that does not begin with its set. */
MUST_CHECK enum status outbound_open(struct outbound **out,
                                     struct registry *registry,
                                     struct mqtt_db *db,
                                     const struct bridge_config *config,
                                     struct problem *why);
/* outbound_end asks the client to end, and outbound_stop waits for that. A
 * second call does nothing; NULL is allowed. */
void outbound_end(struct outbound *out);
void outbound_stop(struct outbound *out);
/* Calls outbound_stop, and frees. */
void outbound_close(struct outbound *out);

struct outbound_report {
    struct mqtt_state mqtt; /* as outbound_state */
    uint64_t sets;          /* lanes that are not withheld; so are the next */
    uint64_t lag;           /* unacknowledged entries of all sets */
    uint64_t sets_behind;   /* lanes with unacknowledged entries */
    char slowest[65];       /* the set with the largest lag; "": none */
    uint64_t slowest_lag;
    uint64_t in_flight;    /* messages */
    uint64_t published;    /* messages since the start, repeats included */
    uint64_t acknowledged; /* messages */
    uint64_t refused;      /* messages, by the MQTT broker */
    uint64_t left_out;     /* entries that are too large for its packets, or no
                              longer retained */
};

/* Fills in the report, with the sets that `reader` sees; NULL: with all of
 * them. Any thread. Looks at every lane. */
void outbound_report(struct outbound *out, const struct principal *reader,
                     struct outbound_report *report);

/* Fills in `mqtt` only, quickly. If the connection stands, `why` names a set
 * whose messages the MQTT broker refuses, never a private one. */
void outbound_state(struct outbound *out, struct mqtt_state *state);

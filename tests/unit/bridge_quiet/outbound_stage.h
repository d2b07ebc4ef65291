/*
 * outbound_stage.h - a bridge outwards of a test's own, on sets of its own and
 * the double of the MQTT Client; and its messages, as one line of text:
 *
 *     online  demo@0  demo(0-3)  demo+4  gone@-
 *
 * a status, a position, a notification of entries 1 to 3, a change with seq 4,
 * a position that is taken away. Time is the test's.
 */
#ifndef TESTS_UNIT_BRIDGE_OUTBOUND_STAGE_H
#define TESTS_UNIT_BRIDGE_OUTBOUND_STAGE_H

#include "broker/bridge/mqtt_db.h"
#include "broker/bridge/outbound.h"
#include "broker/config/bridge_config.h"
#include "tests/support/set_changes.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/quiet_mqtt.h"

#define SECOND ((int64_t)1000000)

struct outs {
    struct tempdir dir;
    struct sets sets;
    struct bridge_config config;
    struct mqtt_db *db;
    struct tokens *tokens;
    struct outbound *out;
    size_t seen; /* messages that outs_told has returned */
    char text[65536];
};

/* Fixtures; *state is a struct outs. Sets and a database; the bridge publishes
 * all sets, in JSON at QoS 1. */
int outs_setup(void **state);
int outs_teardown(void **state);

/* With the set "demo", which is at 1; the bridge has published everything, and
 * rests. */
int outs_setup_demo(void **state);

/* Does what a script (tests/support/script.h) says:
 *
 *     add SET N | heavy SET N BYTES      commits N changes; post: and a turn
 *     rotate SET | remove SET
 *     private SET                        makes a private set
 *     token NAME PATTERNS | revoke NAME  a token that may subscribe to these
 *     start | begin                      the bridge; begin: and connects
 *     stop | cut                         it ends; its connection before it
 *     kill                               the next start has what is kept now
 *     connect | lose | turn | await      quiet_mqtt_connect(false), ...
 *     part                               quiet_mqtt_part, as it is suspended
 *     window N | packet BYTES            of quiet_mqtt
 *     pass N | pass Ns                   microseconds or seconds, and a turn
 *     ack WORD | refuse WORD [NTH [CODE]] | ackall
 *     skip                               what was told so far
 *
 *     told WORDS, all WORDS, find WORD   outs_told without and with retained
 *     has COUNTER N, until COUNTER N     of struct outbound_report
 *     why TEXT                           what is wrong with the connection
 *     waits, rests                       what the last turn answered
 *     suspended, goes-on                 it is suspended, or not
 */
void play(struct outs *o, const char *script);

/* Time goes on; a turn. */
void outs_pass(int64_t us);

/* The messages since the last call, each followed by a space; positions and
 * status only if asked for. */
const char *outs_told(struct outs *o, bool with_retained);

struct outbound_report outs_report(struct outs *o);

/* The number of the message with that text, from the beginning. */
size_t outs_find(struct outs *o, const char *text, unsigned nth);

#endif

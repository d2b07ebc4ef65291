/*
 * outs.h - a bridge outwards of a test's own, on sets of its own and the double
 * of the MQTT Client; and what it has told, as one line of text:
 *
 *     online  demo@0  demo(0-3)  demo+4  gone@-
 *
 * a status, a position, a notification of entries 1 to 3, a change with seq 4,
 * a position that is taken away. Time is the test's.
 */
#ifndef TESTS_UNIT_BRIDGE_OUTS_H
#define TESTS_UNIT_BRIDGE_OUTS_H

#include "broker/base/bridging.h"
#include "broker/bridge/ledger.h"
#include "broker/bridge/out.h"
#include "tests/support/alterations.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/quiet_mqtt.h"

#define SECOND ((int64_t)1000000)

struct outs {
    struct sets sets;
    char dir[256];
    struct bridge_config config;
    struct ledger *ledger;
    struct out *out;
    size_t seen; /* messages that outs_told has told */
    char text[65536];
};

/* Sets and a ledger; all sets are told, in JSON at QoS 1. */
void outs_open(struct outs *o, void **state);
void outs_close(struct outs *o);

/* With the set "demo", which is at 1; all is told, acknowledged and at rest. */
void outs_open_demo(struct outs *o, void **state);

/* The bridge starts; is connected, and has had its first turn. */
void outs_start(struct outs *o);
void outs_connect(struct outs *o);

/* It ends, and so does its connection before, if `is_cut`. */
void outs_stop(struct outs *o, bool is_cut);

/* What the ledger has now is all that the next start has: as after kill -9. */
void outs_kill(struct outs *o);

/* `n` changes of a set, then a turn. */
void outs_post(struct outs *o, const char *set, unsigned n);

/* Time goes on; a turn. */
void outs_pass(int64_t us);

/* The messages since the last call, each followed by a space; positions and
 * status only if asked for. */
const char *outs_told(struct outs *o, bool with_retained);

#define assert_told(o, text) assert_string_equal(outs_told((o), false), (text))
#define assert_all_told(o, text) \
    assert_string_equal(outs_told((o), true), (text))

struct out_report outs_report(struct outs *o);

/* The number of the message that is told so, from the beginning. */
size_t outs_find(struct outs *o, const char *text, unsigned nth);

/* The first one that is told so is acknowledged. */
void outs_acknowledge(struct outs *o, const char *text);

#endif

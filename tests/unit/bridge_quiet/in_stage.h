/*
 * in_stage.h - the inward direction of a bridge with a real registry and
 * ledger, and a quiet client (quiet_mqtt.h).
 *
 *     in_stage_configure -> (change s.config, ...) -> in_stage_start ...
 *                                     ^                     -> in_stage_close
 *                                     +-------------------------------+
 *
 * Its inputs: a/+ -> alpha, plant/+/changes -> +, plant/# -> rest.
 */
#ifndef TESTS_UNIT_BRIDGE_IN_STAGE_H
#define TESTS_UNIT_BRIDGE_IN_STAGE_H

#include "broker/bridge/in.h"
#include "broker/bridge/round.h"
#include "tests/unit/bridge/arrived.h"
#include "tests/unit/bridge_quiet/quiet_mqtt.h"
#include "tests/unit/sets/ingests.h"

struct in_stage {
    struct sets sets;
    struct ledger *ledger;
    struct bridge_config config;
    struct bridge_input inputs[3];
    struct in *in;
    char long_text[1000]; /* terminated */
    char payload[(1 << 19) + 1];
    const char *dir;
};

void in_stage_configure(struct in_stage *s, void **state);
void in_stage_start(struct in_stage *s); /* it is connected then, not granted */
void in_stage_open(struct in_stage *s, void **state); /* both; all granted */
void in_stage_close(struct in_stage *s);

/* A message of QoS 1, with nothing that is of MQTT 5 alone. */
struct mqtt_received in_stage_message(struct in_stage *s, const char *topic,
                                      const char *payload);
void in_stage_receive(struct in_stage *s, const char *topic,
                      const char *payload);

/* Makes s->payload a change of that many bytes, most of them white space. */
void in_stage_fill(struct in_stage *s, size_t size);

struct in_report in_stage_report(struct in_stage *s);

/* As of arrived.h. */
uint64_t in_stage_last(struct in_stage *s, const char *set);
void in_stage_assert_locs(struct in_stage *s, const char *set,
                          const char *words);

/* Problem number `i` was published, and has these texts in it (NULL: none). */
void in_stage_assert_rejected(struct in_stage *s, size_t i, const char *one,
                              const char *two, const char *three);

#endif

/*
 * inbound_stage.h - the inward direction of a bridge with a real registry and
 * database, and a quiet client (quiet_mqtt.h). *state is a struct in_stage.
 *
 *     FIXTURE(in_stage_setup, in_stage_teardown);
 *
 * Its inputs: a/+ -> alpha, plant/+/changes -> +, plant/# -> rest.
 */
#ifndef TESTS_UNIT_BRIDGE_INBOUND_STAGE_H
#define TESTS_UNIT_BRIDGE_INBOUND_STAGE_H

#include "broker/bridge/inbound.h"
#include "broker/bridge/inbox.h"
#include "tests/support/tempdir.h"
#include "tests/unit/bridge/arrived.h"
#include "tests/unit/bridge_quiet/quiet_mqtt.h"

struct in_stage {
    struct tempdir dir;
    struct sets sets;
    struct mqtt_db *db;
    struct tokens *tokens; /* NULL before in_stage_add_token */
    struct bridge_config config;
    struct bridge_input inputs[3];
    struct inbound *in;   /* NULL: closed */
    char long_text[1000]; /* terminated */
    char payload[(1 << 19) + 1];
};

/* Fixtures: connected, and all inputs are granted; or closed, so that config
 * can be changed before in_stage_start. */
int in_stage_setup(void **state);
int in_stage_setup_closed(void **state);
int in_stage_teardown(void **state);

void in_stage_start(struct in_stage *s); /* it is connected then, not granted */
void in_stage_close(struct in_stage *s);

/* Makes a token with these rights. */
void in_stage_add_token(struct in_stage *s, const char *name,
                        const char *publish, const char *manage);

/* A message of QoS 1, with nothing that is of MQTT 5 alone. */
struct mqtt_received in_stage_message(const char *topic, const char *payload);
void receive(const char *topic, const char *payload);

/* The same on a/x, with more of it: RECEIVE(ENTRY("1"), .key = SLICE("k")) */
#define RECEIVE(text, ...)                      \
    quiet_mqtt_receive(&(struct mqtt_received){ \
        .topic = "a/x", .payload = slice_of(text), .mid = 1, __VA_ARGS__})

/* Makes s->payload a change of that many bytes, most of them white space. */
void in_stage_fill(struct in_stage *s, size_t size);

struct inbound_report report(struct in_stage *s);

/* As of arrived.h. */
uint64_t last_of(struct in_stage *s, const char *set);
void assert_locs(struct in_stage *s, const char *set, const char *words);

/* Problem number `i` was published, and has these texts in it (NULL: none). */
void assert_rejected(size_t i, const char *one, const char *two,
                     const char *three);

#endif

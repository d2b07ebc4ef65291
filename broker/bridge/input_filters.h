/*
 * input_filters.h - the inputs of a bridge: its subscriptions, and the input of
 * a topic.
 *
 * With every connection the client subscribes to all filters, whether the MQTT
 * broker has kept the session or not: a filter may be new, and a broker that
 * crashed may have kept an older session. It unsubscribes from filters of the
 * session that are no longer configured.
 *
 * mqtt.db lists the granted filters. Retained messages are older than the
 * subscription, so the client takes them once, when the MQTT broker grants a
 * filter that is not in mqtt.db:
 *
 *   MQTT 5      the client asks for them only then (Retain Handling), so it
 *               takes all that come; also in a later connection, from the
 *               session, if one connection was too short for all
 *   MQTT 3.1.1  they come with every subscription; the client takes those that
 *               come in the connection in which the filter was new. If it
 *               breaks before all have come, the rest are ignored
 *
 * The client's thread.
 */
#ifndef BROKER_BRIDGE_INPUT_FILTERS_H
#define BROKER_BRIDGE_INPUT_FILTERS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/bridge/mqtt_db.h"
#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "proto/problem.h"
#include "proto/status.h"

struct input_filters {
    const struct bridge_config *config;
    struct mqtt_db *db;

    /* Of this connection, by input */
    bool is_known[BRIDGE_INPUT_MAX]; /* mqtt.db has its filter */
    bool is_asked[BRIDGE_INPUT_MAX]; /* SUBACK has not come */
    int mid[BRIDGE_INPUT_MAX];

    char (*stale)[sizeof(((struct bridge_input *)0)->filter)];
    size_t n_stale, stale_capacity; /* unsubscribed filters */
};

void input_filters_init(struct input_filters *inputs,
                        const struct bridge_config *config, struct mqtt_db *db);
void input_filters_fini(struct input_filters *inputs);

/* Subscribes and unsubscribes after a connection was made. After any failure
 * the connection is useless. */
MUST_CHECK enum status input_filters_subscribe(struct input_filters *inputs,
                                               struct mqtt *mqtt,
                                               struct problem *why);

/* Handles SUBACK. STATUS_INVALID: the filter is not granted, or not at QoS 1;
 * `why` has the reason. STATUS_IO: mqtt.db could not note it. */
MUST_CHECK enum status input_filters_granted(struct input_filters *inputs,
                                             int mid, int granted,
                                             struct problem *why);

/* Finds the first input whose filter matches the valid topic; NULL: none, as
 * for an unsubscribed filter. */
const struct bridge_input *
input_filters_find(const struct input_filters *inputs, const char *topic);

/* True if the bridge takes a retained message of this input. */
bool input_filters_takes_retained(const struct input_filters *inputs,
                                  const struct bridge_input *input);

#endif

/*
 * inputs.h - the inputs of a bridge: what is subscribed to, and which of them a
 * topic comes by.
 *
 * With every connection all filters are subscribed to, whether the MQTT broker
 * has kept the session or not: a filter may be new, and a broker that crashed
 * may have kept an older session. What the session holds and is configured no
 * more is unsubscribed from.
 *
 * The ledger knows which filters were granted. Retained messages say what was
 * before somebody subscribed, so they are taken once, when a filter is granted
 * that the ledger does not know:
 *
 *   MQTT 5      only then are they asked for (Retain Handling), so those that
 *               come were; also in a later connection, out of the session, in
 *               which there were more than could be sent in one go
 *   MQTT 3.1.1  they come with every subscription; those are taken that come in
 *               the connection in which the filter was new. If it breaks before
 *               all have come, the rest are passed over
 *
 * The client's thread.
 */
#ifndef BROKER_BRIDGE_INPUTS_H
#define BROKER_BRIDGE_INPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/bridge/ledger.h"
#include "broker/bridge/mqtt.h"
#include "broker/config/bridging.h"
#include "proto/problem.h"
#include "proto/status.h"

struct inputs {
    const struct bridge_config *config;
    struct ledger *ledger;

    /* Of this connection, by input */
    bool is_known[BRIDGE_INPUT_MAX]; /* the ledger has its filter */
    bool is_asked[BRIDGE_INPUT_MAX]; /* SUBACK has not come */
    int mid[BRIDGE_INPUT_MAX];

    char (*stale)[sizeof(((struct bridge_input *)0)->filter)];
    size_t n_stale, stale_capacity; /* filters that were unsubscribed from */
};

void inputs_init(struct inputs *inputs, const struct bridge_config *config,
                 struct ledger *ledger);
void inputs_fini(struct inputs *inputs);

/* There is a connection: unsubscribes, subscribes. Any failure: the connection
 * is of no use. */
MUST_CHECK enum status inputs_subscribe(struct inputs *inputs,
                                        struct mqtt *mqtt, struct problem *why);

/* SUBACK. STATUS_INVALID: the filter is not granted, or not at QoS 1; `why`
 * says it. STATUS_IO: the ledger could not note it. */
MUST_CHECK enum status inputs_granted(struct inputs *inputs, int mid,
                                      int granted, struct problem *why);

/* The first input whose filter matches the topic, which is valid; NULL: none,
 * as of a filter that was unsubscribed from. */
const struct bridge_input *inputs_find(const struct inputs *inputs,
                                       const char *topic);

/* Is a retained message that came by it to be taken? */
bool inputs_takes_retained(const struct inputs *inputs,
                           const struct bridge_input *input);

#endif

#include "broker/bridge/input_filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/base/diag.h"
#include "proto/mqtt_topic.h"

void
input_filters_init(struct input_filters *inputs,
                   const struct bridge_config *config, struct mqtt_db *db)
{
    *inputs = (struct input_filters){.config = config, .db = db};
}

void
input_filters_fini(struct input_filters *inputs)
{
    free(inputs->stale);
    inputs->stale = NULL;
}

static size_t
find_filter(const struct bridge_config *config, const char *filter)
{
    size_t i = 0;

    while (i < config->n_inputs && strcmp(config->inputs[i].filter, filter))
        i++;
    return i;
}

/* Called for each filter in mqtt.db. */
static enum status
on_filter(const char *filter, void *user)
{
    struct input_filters *inputs = user;
    size_t i = find_filter(inputs->config, filter);
    void *stale;

    if (i < inputs->config->n_inputs) {
        inputs->is_known[i] = true;
        return STATUS_OK;
    }
    stale = ONE_MORE(inputs->stale, &inputs->stale_capacity, inputs->n_stale);
    if (!stale)
        return STATUS_MEMORY;
    inputs->stale = stale;
    snprintf(inputs->stale[inputs->n_stale++], sizeof(inputs->stale[0]), "%s",
             filter);
    return STATUS_OK;
}

enum status
input_filters_subscribe(struct input_filters *inputs, struct mqtt *mqtt,
                        struct problem *why)
{
    const struct bridge_config *config = inputs->config;
    enum status rc;

    memset(inputs->is_known, 0, sizeof(inputs->is_known));
    memset(inputs->is_asked, 0, sizeof(inputs->is_asked));
    inputs->n_stale = 0;
    rc = mqtt_db_filters(inputs->db, config->name, on_filter, inputs, why);
    for (size_t i = 0; !rc && i < inputs->n_stale; i++)
        rc = mqtt_unsubscribe(mqtt, inputs->stale[i], why);
    for (size_t i = 0; !rc && i < config->n_inputs; i++) {
        const char *filter = config->inputs[i].filter;

        rc = mqtt_subscribe(mqtt, filter, !inputs->is_known[i], &inputs->mid[i],
                            why);
        inputs->is_asked[i] = !rc;
    }
    return rc;
}

/* The MQTT broker obeys in order: at the first SUBACK it has unsubscribed from
 * the stale filters, and mqtt.db may forget them. If that fails, the next
 * connection repeats it. */
static enum status
forget_stale(struct input_filters *inputs, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < inputs->n_stale; i++)
        rc = mqtt_db_drop_filter(inputs->db, inputs->config->name,
                                 inputs->stale[i], why);
    inputs->n_stale = 0;
    return rc;
}

static enum status
judge_grant(struct input_filters *inputs, size_t i, int granted,
            struct problem *why)
{
    const char *filter = inputs->config->inputs[i].filter;

    if (granted >= MQTT_REASON_FAILED)
        return problem(why, STATUS_INVALID,
                       "the MQTT broker refuses the subscription to %s: %s",
                       filter, mqtt_reason(granted));
    if (granted < 1)
        return problem(why, STATUS_INVALID,
                       "the MQTT broker grants %s at QoS 0 only, so that "
                       "messages may be lost",
                       filter);
    return STATUS_OK;
}

enum status
input_filters_granted(struct input_filters *inputs, int mid, int granted,
                      struct problem *why)
{
    enum status rc, judged;
    size_t i = 0;

    while (i < inputs->config->n_inputs &&
           !(inputs->is_asked[i] && inputs->mid[i] == mid))
        i++;
    if (i == inputs->config->n_inputs)
        return STATUS_OK;
    inputs->is_asked[i] = false;
    rc = forget_stale(inputs, why);
    judged = judge_grant(inputs, i, granted, why);
    if (granted >= MQTT_REASON_FAILED)
        return judged;
    /* is_known stays unchanged: retained messages come with the subscription,
     * before SUBACK or after it. After a crash before this row they come again.
     * After a later crash the session has the unacknowledged ones. */
    if (!rc && !inputs->is_known[i])
        rc = mqtt_db_add_filter(inputs->db, inputs->config->name,
                                inputs->config->inputs[i].filter, why);
    return judged ? judged : rc;
}

const struct bridge_input *
input_filters_find(const struct input_filters *inputs, const char *topic)
{
    const struct bridge_config *config = inputs->config;

    for (size_t i = 0; i < config->n_inputs; i++)
        if (mqtt_filter_matches(slice_of(config->inputs[i].filter),
                                slice_of(topic)))
            return &config->inputs[i];
    return NULL;
}

bool
input_filters_takes_retained(const struct input_filters *inputs,
                             const struct bridge_input *input)
{
    return inputs->config->version == BRIDGE_MQTT_5 ||
           !inputs->is_known[input - inputs->config->inputs];
}

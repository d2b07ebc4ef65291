#include "broker/bridge/bridges.h"

#include <stdlib.h>

#include "broker/base/metrics.h"
#include "broker/base/thread.h"
#include "broker/bridge/bridge_report.h"
#include "broker/bridge/in.h"
#include "broker/bridge/ledger.h"
#include "broker/bridge/mqtt.h"
#include "broker/bridge/out.h"

/* One section. A direction that it does not have is NULL. */
struct bridge {
    const struct bridge_config *config;
    struct out *out;
    struct in *in;
};

struct bridges {
    struct ledger *ledger;
    struct bridge *all;
    size_t n;
    bool is_stopped;
};

/* Opening */

static enum status
open_bridge(struct bridges *bridges, struct registry *registry,
            struct bridge *bridge, struct problem *why)
{
    const struct bridge_config *config = bridge->config;
    struct problem inner = {""};
    enum status rc = STATUS_OK;

    if (config->out[0])
        rc = out_open(&bridge->out, registry, bridges->ledger, config, &inner);
    if (!rc && config->n_inputs > 0)
        rc = in_open(&bridge->in, registry, bridges->ledger, config, &inner);
    if (rc)
        return problem(why, rc, "bridge %s: %s", config->name, inner.text);
    return STATUS_OK;
}

/* Out comes first: what is told of the sets begins where they are before
 * anything comes in by the same section. */
static enum status
open_all(struct bridges *bridges, struct registry *registry,
         struct problem *why)
{
    const struct config *config = registry_config(registry);
    struct problem inner = {""};
    enum status rc = bridge_ledger_open(&bridges->ledger, config->data, &inner);

    if (rc)
        return problem(why, rc, "mqtt.db: %s", inner.text);
    for (size_t i = 0; !rc && i < config->n_bridges; i++) {
        bridges->all[i].config = &config->bridges[i];
        bridges->n = i + 1; /* half open is open, to bridges_close */
        rc = open_bridge(bridges, registry, &bridges->all[i], why);
    }
    return rc;
}

enum status
bridges_open(struct bridges **bridges, struct registry *registry,
             struct problem *why)
{
    const struct config *config = registry_config(registry);
    struct bridges *b;
    enum status rc;

    *bridges = NULL;
    if (config->n_bridges == 0)
        return STATUS_OK;
    b = calloc(1, sizeof(*b));
    if (b)
        b->all = calloc(config->n_bridges, sizeof(*b->all));
    if (!b || !b->all) {
        free(b);
        return problem(why, STATUS_MEMORY, "no memory for the bridges");
    }
    rc = open_all(b, registry, why);
    if (rc)
        bridges_close(b);
    else
        *bridges = b;
    return rc;
}

enum status
bridges_check_data(const struct config *config, struct problem *why)
{
    struct problem inner = {""};
    enum status rc = STATUS_OK;

    if (config->n_bridges > 0)
        rc = bridge_ledger_check(config->data, &inner);
    if (rc)
        return problem(why, rc, "%s/mqtt.db: %s", config->data, inner.text);
    return STATUS_OK;
}

enum status
bridges_check_files(const struct config *config, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < config->n_bridges; i++) {
        const struct bridge_config *bridge = &config->bridges[i];
        struct problem inner = {""};

        rc = mqtt_check_files(bridge, &inner);
        if (rc)
            problem_set(why, "%s: %s", bridge_place(bridge).text, inner.text);
    }
    return rc;
}

/* The end */

/* A direction takes up to MQTT_FAREWELL_US to end; so each ends on a thread of
 * its own, or all would take the sum. */
struct ending {
    struct thread thread;
    struct out *out; /* one of the two */
    struct in *in;
};

static void
end_direction(struct ending *ending)
{
    out_stop(ending->out);
    in_stop(ending->in);
}

static void
run_ending(struct thread *thread)
{
    end_direction(thread->user);
}

/* Without a thread it takes its time here. */
static void
begin_ending(struct ending *ending)
{
    if ((ending->out || ending->in) &&
        thread_start(&ending->thread, "bridge-end", run_ending, ending, NULL))
        end_direction(ending);
}

void
bridges_stop(struct bridges *b)
{
    struct ending endings[2 * BRIDGES_MAX] = {0};

    if (!b || b->is_stopped)
        return;
    b->is_stopped = true;
    for (size_t i = 0; i < b->n; i++) {
        endings[2 * i].out = b->all[i].out;
        endings[2 * i + 1].in = b->all[i].in;
    }
    for (size_t i = 0; i < 2 * b->n; i++)
        begin_ending(&endings[i]);
    for (size_t i = 0; i < 2 * b->n; i++)
        thread_stop(&endings[i].thread);
}

void
bridges_close(struct bridges *b)
{
    if (!b)
        return;
    bridges_stop(b);
    for (size_t i = 0; i < b->n; i++) {
        in_close(b->all[i].in);
        out_close(b->all[i].out);
    }
    bridge_ledger_close(b->ledger);
    free(b->all);
    free(b);
}

/* What operators see */

void
bridges_write(struct bridges *b, struct buf *to)
{
    struct out_report out;
    struct in_report in;

    BUF_ADD(to, "{\"bridges\":[");
    for (size_t i = 0; b && i < b->n; i++) {
        const struct bridge *bridge = &b->all[i];

        if (bridge->out)
            out_report(bridge->out, &out);
        if (bridge->in)
            in_report(bridge->in, &in);
        if (i > 0)
            BUF_ADD(to, ",");
        bridge_report_write(to, bridge->config, bridge->out ? &out : NULL,
                            bridge->in ? &in : NULL);
    }
    BUF_ADD(to, "]}\n");
}

/* Of what goes out the sets are not all looked at: a service thread asks. */
void
bridges_warn(struct bridges *b, struct buf *to)
{
    struct mqtt_state out;
    struct in_report in;

    for (size_t i = 0; b && i < b->n; i++) {
        const struct bridge *bridge = &b->all[i];

        if (bridge->out)
            out_state(bridge->out, &out);
        if (bridge->in)
            in_report(bridge->in, &in);
        bridge_report_warn(to, bridge->config, bridge->out ? &out : NULL,
                           bridge->in ? &in : NULL);
    }
}

/* (How many connections stand each of them counts: mqtt.c.) */
void
bridges_measure(struct bridges *b)
{
    uint64_t in_flight = 0, lag = 0;
    struct out_report out;

    for (size_t i = 0; b && i < b->n; i++) {
        if (!b->all[i].out)
            continue;
        out_report(b->all[i].out, &out);
        in_flight += out.in_flight;
        lag += out.lag;
    }
    metrics_set(METRIC_MQTT_IN_FLIGHT, (int64_t)in_flight);
    metrics_set(METRIC_MQTT_LAG, (int64_t)lag);
}

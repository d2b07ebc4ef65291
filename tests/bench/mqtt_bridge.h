/*
 * mqtt_bridge.h - the broker that is measured, with a bridge that is new each
 * time, or none, and its metrics.
 */
#ifndef TESTS_BENCH_MQTT_BRIDGE_H
#define TESTS_BENCH_MQTT_BRIDGE_H

#include <stdint.h>

#include "tests/bench/server.h"

struct bridge {
    /* The caller sets these before bridge_start */
    const char *dir;      /* its data and configuration are put there */
    char *const *command; /* --listen, --data and --config are added */
    int core;
    unsigned port; /* of the MQTT broker, on this machine */
    unsigned inflight;

    struct server server;
    int fd; /* a connection for metrics; -1: it has no bridge */
};

/* Starts it, and waits until the bridge is connected. `keys`: lines of the
 * bridge's section; NULL: there is no bridge. */
void bridge_start(struct bridge *bridge, const char *keys);
void bridge_stop(struct bridge *bridge);

/* Returns a metric without labels; the broker must have been started with a
 * bridge. */
uint64_t bridge_metric(struct bridge *bridge, const char *name);

#endif

/*
 * bridges.h - the bridges to MQTT brokers, as the floors above see them.
 *
 * A bridge is one [mqtt NAME] section of the configuration (base/bridging.h),
 * or --mqtt. Its two directions have nothing in common but the MQTT broker:
 * each is an MQTT Client of its own, with a thread and a connection.
 *
 *     log --> cursors --> out --> mqtt --> MQTT broker      changes go out
 *     log <-- ingest <--- in <--- mqtt <-- MQTT broker      changes come in
 *
 * The log is the outbox: nothing is queued here. What goes out is read from a
 * cursor per set, which moves when the MQTT broker has acknowledged; what comes
 * in is acknowledged when it is committed. So whoever goes away, the MQTT
 * broker, the network or this process, nothing is lost.
 *
 * The folder:
 *
 *     mqtt      a connection and its thread: made, kept, made again
 *     out       changes of sets to topics; lane: a set's cursor;
 *               window: what is in flight; retained: position and status
 *     in        messages to posts; rejected: what was bad
 *     topics    names of topics, and filters
 *     ledger    mqtt.db: what must outlive the process
 *     bridge_report   what operators see
 */
#ifndef BROKER_BRIDGE_BRIDGES_H
#define BROKER_BRIDGE_BRIDGES_H

#include <stddef.h>

#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

struct bridges;

/* Opens DIR/mqtt.db and starts the threads of every bridge that is configured.
 * None is: *bridges is NULL, which all below allow, and nothing is made. That
 * an MQTT broker cannot be reached is no failure of the start: it is tried
 * again. */
MUST_CHECK enum status bridges_open(struct bridges **bridges,
                                    struct registry *registry,
                                    struct problem *why);

/* Ends the threads: what came in is committed and acknowledged, what is in
 * flight outwards has a second to be acknowledged, the status becomes
 * "offline", cursors are kept. Before registry_stop: what comes in is answered
 * by the log. Harmless twice. */
void bridges_stop(struct bridges *bridges);

/* bridges_stop, frees. */
void bridges_close(struct bridges *bridges);

/* Appends what GET /bridges answers, an object with a member "bridges". Any
 * thread. */
void bridges_write(struct bridges *bridges, struct buf *to);

/* Appends a line "warning: ..." for /readyz for every direction that is not
 * connected, or that something keeps from going on. Any thread, cheap. */
void bridges_warn(struct bridges *bridges, struct buf *to);

/* Makes the gauges of the bridges what they are now. Any thread. */
void bridges_measure(struct bridges *bridges);

#endif

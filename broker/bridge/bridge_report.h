/*
 * bridge_report.h - a bridge as its operators see it.
 *
 *   {"name":"plant","url":"mqtts://mqtt.example.org:8883","version":"5",
 *    "prefix":"tidings",
 *    "out":{"state":"connected","since":"2026-11-20T10:00:00Z",
 *           "connections":1,"published":120,"acknowledged":118,"inFlight":2,
 *           "refused":0,"leftOut":0,"sets":3,"setsBehind":1,"lag":40,
 *           "slowest":{"set":"demo","lag":40}},
 *    "in":{"state":"waiting","since":"2026-11-20T09:58:12Z","connections":0,
 *          "why":"cannot connect to mqtt.example.org:8883: Connection refused",
 *          "received":0,"posted":0,"entries":0,"ignored":0,"rejected":0,
 *          "repeats":0}}
 *
 * "state" is "connected", "connecting", or "waiting" for the next try; "since":
 * when that began, or the end of the last connection; "why": the problem, also
 * of a connection that stands. Members without a value are left out. The report
 * never names a user, a password or a file.
 *
 * Pure. Any thread.
 */
#ifndef BROKER_BRIDGE_BRIDGE_REPORT_H
#define BROKER_BRIDGE_BRIDGE_REPORT_H

#include "broker/bridge/inbound.h"
#include "broker/bridge/outbound.h"
#include "broker/config/bridge_config.h"
#include "proto/buf.h"

/* Appends the object above; `out` or `in` NULL: the bridge has no such
 * direction. */
void bridge_report_write(struct buf *to, const struct bridge_config *config,
                         const struct outbound_report *out,
                         const struct inbound_report *in);

/* Appends a line for each direction that does not work now:
 *
 *   warning: bridge plant, in: not connected since 2026-11-20T09:58:12Z: ...
 *   warning: bridge plant, in: the disk is full
 *   warning: bridge plant, out: the MQTT broker refuses messages about ...
 */
void bridge_report_warn(struct buf *to, const struct bridge_config *config,
                        const struct mqtt_state *out,
                        const struct inbound_report *in);

#endif

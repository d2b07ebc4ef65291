/*
 * bridges.h - the bridges to MQTT brokers: their interface to the folders
 * above.
 *
 * A bridge is one [mqtt NAME] section of the configuration
 * (config/bridge_config.h), or --mqtt. Its two directions have nothing in
 * common but the MQTT broker: each is an MQTT Client of its own, with a thread
 * and a connection.
 *
 *     log --> cursors --> out --> mqtt --> MQTT broker      changes go out
 *     log <-- ingest <--- in <--- mqtt <-- MQTT broker      changes come in
 *
 * The bridge queues nothing: it reads the log. Each set has a cursor, which
 * moves when the MQTT broker acknowledges its messages. The bridge acknowledges
 * incoming messages when they are committed. So nothing is lost when the MQTT
 * broker, the network or this process fails.
 *
 * The folder:
 *
 *     bridges   all of them, and reports for operators
 *     outbound  a direction outwards, its turns (files: outbound_state.h)
 *     inbound   a direction inwards: its subscriptions, its turns, reports of
 *               bad messages
 *     inbox     the received messages of a turn, on their way into the log
 *     mqtt_topics  names of topics
 *     bridge_rights  the rights of a direction
 *     mqtt_db   mqtt.db: state that outlives the process
 *
 * broker/mqtt makes, keeps and makes again the connections.
 *
 * Dependencies go down this table: mqtt and mqtt_db only know the calls that
 * the parts above gave them.
 *
 * The way of one message out, on the client's thread unless stated otherwise.
 * Each line names a function and its effect:
 *
 *     watched_mark              on the log thread: a commit marks the lane
 *     mqtt_wake                 and wakes the client
 *     on_turn                   the marked lane is ready, and has its turn
 *     outbound_messages_make    a message of the entries behind the last one
 *     lane_list_keep            writes the message's end to mqtt.db
 *     flights_send              only then hands the message to the library
 *     write_packets             the client writes it after the turn
 *     flights_acknowledged      PUBACK: if all earlier messages have theirs,
 *                               the cursor moves. A refused message goes
 *                               again after a pause, and all behind it
 *     retained_send             the lane's position, at most once a second
 *     lane_list_keep            the cursor in mqtt.db, within a second
 *
 * The way of one message in:
 *
 *     read_packets              the client reads all packets
 *     on_received               finds the input and the set
 *     inbox_message_new         copies the message, finds its type and key
 *     on_turn                   all are read, and none is acknowledged
 *     inbox_pass                in order, for each:
 *     begin_message             an ingest (posts/ingest.h), to the log
 *     on_done                   on the log thread: it is committed, or failed
 *     settle_messages           counts it, or publishes its rejection
 *     write_packets             only now: PUBACK
 */
#pragma once

#include "broker/posts/posts.h"
#include "broker/sets/registry.h"

struct bridge_config;
struct bridges;
struct inbound_report;
struct json_shape;
struct mqtt_state;
struct outbound_report;

/* Opens DIR/mqtt.db and starts the threads of every configured bridge
 * (registry_bridging). Without any, makes nothing. An MQTT broker that cannot
 * be reached does not fail the start: the bridge tries again.
 *
 * In a cluster (`seat`, lent; else NULL), each bridge has one owner at a time,
 * and each broker its share of them (cluster/ownership.h). At the others the
 * rows of mqtt.db follow the owner's: client ids are made from them, so a new
 * owner takes over the sessions, and the MQTT broker ends the connections of
 * the former one. */
struct cluster_seat;
MUST_CHECK enum status bridges_open(struct bridges **bridges,
                                    struct posts *posts,
                                    const struct cluster_seat *seat,
                                    struct problem *why);

/* Checks that bridges_open can use the files that the configuration names.
 * Writes nothing. */
MUST_CHECK enum status bridges_check_files(const struct config *config,
                                           struct problem *why);

/* Replaces the bridges by those of `next`, and informs the registry. A bridge
 * with an unchanged section continues. Another ends as by bridges_stop, and a
 * new one begins at the position in mqtt.db. If one cannot begin, the earlier
 * ones are opened again; if one of these fails, it is missing until the next
 * reload, also a reload with the same sections. `next` and the sections before
 * it are lent until bridges_close. A broker that owns none keeps them for
 * later. Only the thread that opened may call this. */
MUST_CHECK enum status bridges_reload(struct bridges *bridges,
                                      const struct bridging *next,
                                      struct problem *why);

/* Ends the threads: incoming messages are committed and acknowledged, messages
 * in flight outwards have a second to be acknowledged, the status becomes
 * "offline", and the cursors are kept. Call it before log_stop, because
 * the log must answer for incoming messages. Gives the lease back. NULL is
 * allowed, and a second call does nothing. */
void bridges_stop(struct bridges *bridges);

/* Calls bridges_stop, and frees. NULL is allowed. */
void bridges_close(struct bridges *bridges);

/* Appends the answer to GET /bridges, an object with a member "bridges", with
 * the sets that `reader` sees. In a cluster it has the bridges of other owners,
 * too, by the rows of mqtt.db. Any thread that may read files. */
void bridges_write(struct bridges *bridges, const struct principal *reader,
                   struct buf *to);

/* Appends a line "warning: ..." for /readyz for every direction that is not
 * connected, or is stuck. Any thread, cheap. */
void bridges_warn(struct bridges *bridges, struct buf *to);

/* Sets the gauges of the bridges. Any thread. */
void bridges_measure(struct bridges *bridges);

/* The parts of these answers about one bridge; pure */

/* Appends the report of a bridge; `out` or `in` NULL: it has no such direction.
 *
 *   {"name":"plant","url":"mqtts://mqtt.example.org:8883","version":"5",
 *    "prefix":"tidings","as":"plant",
 *    "out":{"state":"connected","since":"2026-11-20T10:00:00Z",
 *           "connections":1,"published":120,"acknowledged":118,"inFlight":2,
 *           "refused":0,"leftOut":0,"sets":3,"setsBehind":1,"lag":40,
 *           "slowest":{"set":"demo","lag":40}},
 *    "in":{"state":"waiting","since":"2026-11-20T09:58:12Z","connections":0,
 *          "why":"cannot connect to mqtt.example.org:8883: Connection refused",
 *          "received":0,"posted":0,"entries":0,"ignored":0,"rejected":0,
 *          "repeats":0}}
 *
 * "state" is "connected", "connecting", or "waiting" for the next try, or
 * "elsewhere": another broker of the cluster keeps the bridge, "owner", and
 * alone knows the other members of `out` and `in`; "since": when that began, or
 * the end of the last connection; "why": the problem, also of a connection that
 * stands. Members without a value are left out. The report never names a user,
 * a password or a file.
 */
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

/* The members of the JSON of bridges_write, and of the messages that bridges
 * publish. */
extern const struct json_shape bridges_shape, bridge_shape, bridge_out_shape,
    bridge_set_shape, bridge_in_shape, bridge_position_shape,
    bridge_status_shape;

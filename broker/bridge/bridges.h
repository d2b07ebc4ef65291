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
 *     bridges   all of them; bridge_report: what operators see
 *     out       a direction outwards, its turns; lanes: sets come and go, and
 *               what the ledger keeps of them; lane: a set's cursor; telling:
 *               messages; flights, window: those on their way; retained:
 *               position and status
 *     in        a direction inwards, its turns; inputs: what is subscribed to;
 *               held: a message; round: those of a turn, into the log;
 *               rejected: what is told of a bad one
 *     topics    names of topics
 *     ledger    mqtt.db: what must outlive the process
 *     mqtt      a connection and its thread: made, kept, made again (its files:
 *               mqtt_inside.h); resolve: a host's addresses
 *
 * Arrows go down this table: mqtt and ledger know nothing of what is above
 * them, but by the calls that they were given.
 *
 * The way of one message out; on the client's thread but where it says so:
 *
 *     lanes.c       on_commit      log thread: a commit, so the lane is marked,
 *     mqtt.c        mqtt_wake      and the client woken
 *     out.c         on_turn        who is marked is ready, and has its turn:
 *     telling.c     telling_make   a message of what is behind the last one, as
 *                                  much as fits
 *     lanes.c       lanes_keep     where it ends, in mqtt.db; only then
 *     flights.c     flights_send   it goes:
 *     out.c         out_publish    queued in the library; found by its number
 *     mqtt_round.c  mqtt_speak     written, as the turn is over
 *     out.c         on_acknowledged
 *     flights.c     flights_acknowledged
 *                                  PUBACK: if all before it have theirs, the
 *                                  cursor moves. One that is refused goes
 *                                  again, and all behind it, after a pause
 *     retained.c    retained_send  its position, at most once a second
 *     lanes.c       lanes_keep     within a second: the cursor, in mqtt.db
 *
 * The way of one message in; on the client's thread but where it says so:
 *
 *     mqtt_round.c  hear           all packets that there are; of each one
 *     in.c          on_received    by which input, and for which set (inputs.c)
 *     held.c        held_new       it comes, its type and key; copied
 *     in.c          on_turn        that was all, and none is acknowledged
 *     round.c       round_settle   in order, for each
 *     held.c        held_begin     an ingest (sets/ingest.h), to the log
 *     round.c       on_done        log thread: it is committed, or is not
 *     in.c          on_settled     it is counted; or rejected, and told so
 *     mqtt_round.c  mqtt_speak     only now: PUBACK
 */
#ifndef BROKER_BRIDGE_BRIDGES_H
#define BROKER_BRIDGE_BRIDGES_H

#include <stddef.h>

#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

struct bridges;

/* Opens DIR/mqtt.db and starts the threads of every bridge that is configured
 * (registry_bridging). Without any, nothing is made. That an MQTT broker cannot
 * be reached is no failure of the start: it is tried again. All below allow
 * NULL. */
MUST_CHECK enum status bridges_open(struct bridges **bridges,
                                    struct registry *registry,
                                    struct problem *why);

/* Could bridges_open use the files that the configuration names, and what is in
 * the data directory? Both write nothing. */
MUST_CHECK enum status bridges_check_files(const struct config *config,
                                           struct problem *why);
MUST_CHECK enum status bridges_check_data(const struct config *config,
                                          struct problem *why);

/* Makes the bridges those of `next`, and tells the registry. A bridge whose
 * section is the same goes on; another ends as by bridges_stop, and begins
 * again where mqtt.db says that it was. If one cannot begin, the earlier ones
 * do; one of those that cannot is missing until the next reload, also one to
 * the same sections. `next` and the sections before it are lent until
 * bridges_close. The thread that opened. */
MUST_CHECK enum status bridges_reload(struct bridges *bridges,
                                      const struct bridging *next,
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

/*
 * hub.h - the WebSub hub: subscriptions to the topics of sets and relays, as
 * the floors above see it.
 *
 * A subscription is a cursor in a topic's log, with one delivery in flight: no
 * queue anywhere. All of it is the delivery thread's (net/caller.h); who wants
 * something of it hands over an order:
 *
 *     order_new, hub_submit --> [delivery thread: run, kept] --> order->done
 *
 * An order is answered when what it has changed is on disk (hub.db, records.h):
 * a 202 outlives kill -9.
 *
 * The folder:
 *
 *     order         what is asked of it         hub      the thread, its turns
 *     verify        a request until it is       records  hub.db
 *                   confirmed; denials          report   what operators see
 *     subscription  callback, terms, cursor; found by id, and by pairs
 *     topic         what is read: of a set, of framework (events), of a relay
 *     deliver       prepare, bodies, loads, attempt, outcome
 *     external      other hubs that a set names
 *     foreign       Sources that tell us: source, fetch, intake; relay keeps
 *
 * The way of one delivery; on the delivery thread but where it says so:
 *
 *     topic.c    topic_mark      log thread: a commit, so the topic is dirty
 *     hub.c      on_wake
 *     deliver.c  deliver_wake    those that rest in it are due: each asks the
 *                                caller for a turn (net/caller.h)
 *     prepare.c  prepare_call    has its turn: the body is found, or made, or
 *     loads.c    work            worker: read from disk
 *     prepare.c  fix             its range is written,
 *     hub.c      end_turn        and kept, with all of this turn;
 *     deliver.c  deliver_turn    then it goes:
 *     attempt.c  attempt_make    headers, signature, id; POST
 *     outcome.c  outcome_done    2xx: the cursor moves; else it backs off, or
 *                                ends
 *     deliver.c  delivery_go_on  the next one, or it rests
 *     hub.c      keep_cursors    within a second: in hub.db
 */
#ifndef BROKER_HUB_HUB_H
#define BROKER_HUB_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/hub/order.h"
#include "broker/sets/registry.h"
#include "proto/address.h"
#include "proto/problem.h"
#include "proto/status.h"

struct hub;

/* Opens DIR/hub.db, learns what is in it, and starts the delivery thread:
 * cursors go on where they were. `allowed` is lent. On an open broker
 * (without
 * --insecure-open) callbacks that clients of this machine subscribed may be on
 * loopback, too. */
MUST_CHECK enum status hub_open(struct hub **hub, struct registry *registry,
                                const struct networks *allowed,
                                struct problem *why);

/* Could hub_open use what is in the data directory `dir`? Writes nothing. */
MUST_CHECK enum status hub_check(const char *dir, struct problem *why);

/* Hands an order to the delivery thread, whose it is until order->done. Any
 * thread. STATUS_STOPPED: the hub is ending; the order stays the caller's. */
MUST_CHECK enum status hub_submit(struct hub *hub, struct order *order);

/* Ends the thread: orders that were taken are answered, deliveries in flight
 * are cut (their ranges are known and repeated at the next start), cursors are
 * kept. Before registry_stop... the log can still be read, and before the
 * server's threads end, for they carry answers. Harmless twice. */
void hub_stop(struct hub *hub);

/* hub_stop, frees. NULL is allowed. */
void hub_close(struct hub *hub);

/* A set was created, configured or removed: the hub looks at what that means
 * for its topics. Any thread; only wakes. */
void hub_sets_changed(struct hub *hub);

#endif

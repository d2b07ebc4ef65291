/*
 * records.h - DIR/hub.db: what the hub must know after a crash. SQLite, WAL,
 * one connection, the delivery thread's (and hub_open's, before there is one).
 *
 * Not tidings.db: that has one writer, the log thread, which must never wait
 * for the hub, nor the hub for it.
 *
 * What is written during a turn of the loop stands in one transaction, which
 * records_commit ends. How firmly:
 *
 *   RECORDS_KILL    synchronous=NORMAL: no fsync. Ranges of deliveries (the
 *                   kernel has them: kill -9 loses none; after a power failure
 *                   some may be older, and a delivery is repeated).
 *   RECORDS_POWER   synchronous=FULL: one fsync. Everything else: requests
 *                   before their 202, subscriptions, relays and their documents
 *                   before their 200, cursors once a second.
 *
 * If a disk is full or fails, records_commit says so: what was written in the
 * turn is rolled back, orders are refused with 503, and deliveries that would
 * have begun wait and try again; nothing is told that is not kept.
 */
#ifndef BROKER_HUB_RECORDS_H
#define BROKER_HUB_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/db.h"
#include "broker/hub/subscription.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct records;
struct request; /* verify.h */
struct relay;   /* relay.h */

enum records_firmness { RECORDS_KILL, RECORDS_POWER };

MUST_CHECK enum status records_open(struct records **records, const char *dir,
                                    struct problem *why);
void records_close(struct records *records); /* NULL is allowed */

/* Reads everything, at the start: calls back for relays first, then
 * subscriptions, then requests (hub.c makes them; what belongs to a set that is
 * gone meanwhile is ended by whoever made it). Declared in records.c's order.
 */

/* All below write within the transaction of this turn, and begin it. An error
 * is remembered, and told by records_commit. */
void records_subscription(struct records *r, const struct subscription *s);
void records_subscription_gone(struct records *r, uint64_t id);
void records_request(struct records *r, struct request *request);
void records_request_gone(struct records *r, uint64_t id);

/* The cursor and the range of a delivery that is to be tried. RECORDS_KILL. */
void records_range(struct records *r, uint64_t id, uint64_t after,
                   uint64_t range_last);

/* The cursor, lazily. RECORDS_POWER. */
void records_cursor(struct records *r, const struct subscription *s);

/* Ends the transaction, if one was begun, as firmly as anything in it needs.
 * STATUS_BUSY: nothing of it is kept. */
MUST_CHECK enum status records_commit(struct records *r, struct problem *why);

/* The next number of a subscription or request. Never given twice. */
uint64_t records_next_id(struct records *r);

#endif

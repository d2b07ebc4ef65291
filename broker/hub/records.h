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
 *   ranges of deliveries   synchronous=NORMAL: no fsync. The kernel has them,
 *                          kill -9 loses none; after a power failure some may
 *                          be older, and a delivery is repeated
 *   everything else        synchronous=FULL: one fsync. Requests before their
 *                          202, subscriptions, relays and their documents
 *                          before their 200, cursors once a second
 *
 * If a disk is full or fails, records_commit says so: what was written in the
 * turn is rolled back, orders are refused with 503, and deliveries that would
 * have begun wait and try again; nothing is told that is not kept.
 */
#ifndef BROKER_HUB_RECORDS_H
#define BROKER_HUB_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "base/list.h"
#include "broker/hub/backlog.h"
#include "broker/hub/subscription.h"
#include "broker/hub/topic.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct records;
struct request; /* verify.h */

MUST_CHECK enum status records_open(struct records **records, const char *dir,
                                    struct problem *why);
void records_close(struct records *records); /* NULL is allowed */

/* Could records_open use what is in `dir`? Writes nothing. */
MUST_CHECK enum status records_check(const char *dir, struct problem *why);

/* A row, at the start: lent, but for its terms, which whoever takes them
 * empties. */
struct record {
    uint64_t id;
    enum topic_kind topic_kind;
    struct slice name, epoch; /* of the set or relay, and of its log */
    struct slice callback;
    struct terms terms;
    uint64_t after;

    /* Of a subscription */
    enum subscription_kind kind;
    int64_t created_us, lease_end_us;
    uint64_t range_last;
    uint32_t generation;

    /* Of a request */
    enum websub_mode mode;
    bool has_after;
    int64_t taken_us;
    struct slice topic_url, from;
};

typedef enum status record_fn(struct record *record, void *user,
                              struct problem *why);

/* Reads everything, at the start, in order of ids. What belongs to a set that
 * is gone meanwhile is ended by whoever reads it, afterwards. */
MUST_CHECK enum status records_each_subscription(struct records *r,
                                                 record_fn *fn, void *user,
                                                 struct problem *why);
MUST_CHECK enum status records_each_request(struct records *r, record_fn *fn,
                                            void *user, struct problem *why);

/* All below write within the transaction of this turn, and begin it. An error
 * is remembered, and told by records_commit. */
void records_subscription(struct records *r, const struct subscription *s);
void records_subscription_gone(struct records *r, uint64_t id);
void records_request(struct records *r, const struct request *request);
void records_request_gone(struct records *r, uint64_t id);

/* The cursor and the range of a delivery that is to be tried. Without fsync. */
void records_range(struct records *r, uint64_t id, uint64_t after,
                   uint64_t range_last);

/* The cursor, lazily. */
void records_cursor(struct records *r, const struct subscription *s);

/* Who keeps rows of another kind here (relay.c) adds a step to `steps`
 * (records.c), prepares statements of its own on records_db, and finalises them
 * before records_close. It runs them after records_touch, which begins the
 * transaction of this turn if nobody has; false: this turn cannot be kept, and
 * nothing may be written (it would stand outside of the transaction). What
 * fails is told to records_fail, and then nothing of the turn is kept. `ended`
 * of a hook tells, behind the transaction, whether it was. */
struct db *records_db(struct records *r);
MUST_CHECK bool records_touch(struct records *r);
void records_fail(struct records *r, const struct problem *why);

struct records_hook {
    struct list node;
    void (*ended)(struct records_hook *hook, bool is_kept);
};

void records_add_hook(struct records *r, struct records_hook *hook);

/* Has something been written that no records_commit has ended yet? */
bool records_is_begun(const struct records *r);

/* Ends the transaction, if one was begun, as firmly as anything in it needs.
 * STATUS_BUSY: nothing of it is kept. */
MUST_CHECK enum status records_commit(struct records *r, struct problem *why);

/* At the start: the row was read, and there is no such thing in memory. */
void records_is_stale(struct records *r, enum records_row row, uint64_t id);

/* RECORDS_ALL: before all there is is written. */
void records_clear(struct records *r);

/* After a commit that failed: memory is ahead of hub.db by the rows of the
 * turns that were not kept. records_is_behind: there are some; records_again
 * calls `fn` once for each of them, to write it as it is in memory now, or that
 * it is gone (backlog.h). Those of records_touch are their owner's. */
bool records_is_behind(const struct records *r);
void records_again(struct records *r,
                   void (*fn)(enum records_row row, uint64_t id, void *user),
                   void *user);

/* Gives up the transaction of this turn, as a commit that failed does. */
void records_rollback(struct records *r);

/* The next number of a subscription or request. Never given twice. */
uint64_t records_next_id(struct records *r);

#endif

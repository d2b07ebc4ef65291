/*
 * records.h - DIR/hub.db: the state of the hub that survives a crash. SQLite,
 * WAL, one connection, used by the delivery thread (and by hub_open before
 * there is one).
 *
 * The hub does not use tidings.db: its one writer, the log thread, must never
 * wait for the hub, nor the hub for it.
 *
 * All writes of a turn of the loop form one transaction, which records_commit
 * ends. How firmly it is kept:
 *
 *   ranges of deliveries   synchronous=NORMAL: no fsync. The kernel has them,
 *                          kill -9 loses none; after a power failure some may
 *                          be older, and a delivery is repeated
 *   everything else        synchronous=FULL: one fsync. Requests before their
 *                          202, subscriptions, relays and their documents
 *                          before their 200, cursors once a second
 *
 * If a disk is full or fails, records_commit returns the error and rolls the
 * turn back. The hub then refuses orders with 503, and deliveries of the turn
 * wait and try again: nothing leaves the hub that is not kept.
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
struct verification; /* verification.h */

MUST_CHECK enum status records_open(struct records **records, const char *dir,
                                    struct problem *why);
void records_close(struct records *records); /* NULL is allowed */

/* Checks that records_open can use `dir`. Writes nothing. */
MUST_CHECK enum status records_check(const char *dir, struct problem *why);

/* A row, read at the start. Lent, but the callee may take its terms and empty
 * them. */
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

/* Reads everything at the start, in order of ids. The callee ends what belongs
 * to a set that is gone, afterwards. */
MUST_CHECK enum status records_each_subscription(struct records *r,
                                                 record_fn *fn, void *user,
                                                 struct problem *why);
MUST_CHECK enum status records_each_request(struct records *r, record_fn *fn,
                                            void *user, struct problem *why);

/* All functions below write within the transaction of this turn, and begin it.
 * records_commit returns their first error. */
void records_subscription(struct records *r, const struct subscription *s);
void records_subscription_gone(struct records *r, uint64_t id);
void records_request(struct records *r, const struct verification *request);
void records_request_gone(struct records *r, uint64_t id);

/* Writes the cursor and the range of a delivery that is about to be tried.
 * Without fsync. */
void records_range(struct records *r, uint64_t id, uint64_t after,
                   uint64_t range_last);

/* Writes the cursor. */
void records_cursor(struct records *r, const struct subscription *s);

/* For a part that keeps rows of another kind here (relay.c). It adds a step to
 * `steps` (records.c), prepares statements of its own on records_db, and
 * finalises them before records_close.
 *
 * It calls records_touch before it writes. records_touch begins the transaction
 * of this turn if there is none; false: the transaction has failed, and the
 * part must not write (the rows would be outside of the transaction). The part
 * gives errors to records_fail, and then nothing of the turn is kept. `ended`
 * of a hook receives, after the transaction, whether it was kept. */
struct db *records_db(struct records *r);
MUST_CHECK bool records_touch(struct records *r);
void records_fail(struct records *r, const struct problem *why);

struct records_hook {
    struct list node;
    void (*ended)(struct records_hook *hook, bool is_kept);
};

void records_add_hook(struct records *r, struct records_hook *hook);

/* True if rows were written that no records_commit has ended yet. */
bool records_is_begun(const struct records *r);

/* Ends the transaction, if one was begun, as firmly as its rows need.
 * STATUS_BUSY: nothing of it is kept. */
MUST_CHECK enum status records_commit(struct records *r, struct problem *why);

/* At the start: marks a row for which there is nothing in memory. */
void records_is_stale(struct records *r, enum records_row row, uint64_t id);

/* Deletes all rows, before all of memory is written: RECORDS_ALL. */
void records_clear(struct records *r);

/* After a failed commit memory is ahead of hub.db by the rows of that turn.
 * records_is_behind is true if there are such rows. records_again calls `fn`
 * once for each, to write it as it is in memory now, or to delete it
 * (backlog.h). Rows of records_touch are their owner's matter. */
bool records_is_behind(const struct records *r);
void records_again(struct records *r,
                   void (*fn)(enum records_row row, uint64_t id, void *user),
                   void *user);

/* Gives up the transaction of this turn, as a failed commit does. */
void records_rollback(struct records *r);

/* Returns the next number for a subscription or request. No number is used
 * twice. */
uint64_t records_next_id(struct records *r);

#endif

/*
 * outbox.h - changes that applications give to tidings_publish(), within their
 * own transactions in PostgreSQL, become posts (doc/from_postgresql.md).
 *
 *     application        PostgreSQL                    a broker
 *       COMMIT --------> entries of each set, in the
 *                        order of the commits
 *                        the end of a batch  <-------- chooses it
 *                        entries up to there --------> post, under the key of
 *                                                      that batch
 *                        (entries go)        <-------- it is committed
 *
 * Once: the end of a batch is on the disk of PostgreSQL before its post, and
 * stays until its entries have gone. A broker that comes next posts the same
 * entries under the same idempotency key. Of several brokers one drains a set:
 * it has the set's row, until it has been silent for 10 seconds. Two that
 * drain the same set do the same work twice, and nothing else.
 *
 * In order: numbers of commits are given at COMMIT, under a lock of the set
 * (broker/commands/outbox.sql). An entry that the broker refuses holds up the
 * later ones of its set, and no other set; it is tried again.
 *
 * It asks every OUTBOX_LOOK_US and waits for no NOTIFY: that takes a lock of
 * the whole server, so all transactions that publish would commit one by one.
 */
#pragma once

#include "broker/posts/posts.h"

#define OUTBOX_LOOK_US ((int64_t)200000)

struct outbox;

/* Starts to drain the outbox of --postgresql; without that option makes
 * nothing. A database that cannot be reached does not fail the start.
 * STATUS_INVALID: its address. */
MUST_CHECK enum status outbox_open(struct outbox **outbox, struct posts *posts,
                                   struct problem *why);

/* Ends its thread, while the log still answers. NULL is allowed, and a second
 * call. */
void outbox_stop(struct outbox *outbox);
void outbox_close(struct outbox *outbox); /* stops, and frees */

/* Appends a line "warning: outbox: ..." for /readyz while entries wait for a
 * reason. Any thread. NULL is allowed. */
void outbox_warn(struct outbox *outbox, struct buf *to);

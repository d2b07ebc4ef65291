/*
 * pg_journal.h - the journal of a cluster in PostgreSQL.
 *
 *     tidings_turn      one row: the last number, its chain, its time. Who has
 *                       locked it has the turn
 *     tidings_records   number, chain, broker, record; record 0 is empty, and
 *                       its chain is where the cluster began
 *     tidings_brokers   one row a broker: its process (pg_connection.h), how
 *                       far its copy is
 *     tidings_cluster   one row: the public URL of all brokers
 *
 * A turn is a transaction that has locked the row. It ends with its connection:
 * a broker that dies gives the turn back. The server takes it from a broker
 * that stands still for two seconds (idle_in_transaction_session_timeout). A
 * record follows only the number before its own, so two brokers can never add
 * the same number.
 *
 * Two connections: one for the turns of the log thread, one for a thread that
 * follows what others add. NOTIFY wakes that thread; it looks each second
 * besides.
 */
#ifndef BROKER_JOURNAL_PG_JOURNAL_H
#define BROKER_JOURNAL_PG_JOURNAL_H

#include "broker/journal/pg_options.h"
#include "broker/log/journal.h"
#include "proto/problem.h"
#include "proto/status.h"

struct log;

/* Makes a journal that has no connection yet: its turns make one. What
 * `options` points to is lent as long as the journal lives. Records before the
 * last `keep_bytes` of them are forgotten. STATUS_INVALID: the address cannot
 * be read. */
MUST_CHECK enum status pg_journal_open(struct journal **journal,
                                       const struct pg_options *options,
                                       uint64_t keep_bytes,
                                       struct problem *why);

/* Checks once, before pg_journal_follow, that a copy that is at this place can
 * follow. As pg_connect, but it waits some seconds for the broker's
 * name. STATUS_DIFFERENT: the copy has records that the
 * journal does not have; STATUS_GONE: the journal has forgotten records that
 * the copy needs. */
MUST_CHECK enum status pg_journal_check(struct journal *journal,
                                        const struct journal_place *at,
                                        struct problem *why);

/* Starts the thread that hands the records of others to the log, until
 * pg_journal_stop. Call that before log_stop. */
MUST_CHECK enum status pg_journal_follow(struct journal *journal,
                                         struct log *log, struct problem *why);
void pg_journal_stop(struct journal *journal);

#endif

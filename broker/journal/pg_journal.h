/*
 * pg_journal.h - the journal of a cluster in PostgreSQL.
 *
 *     tidings_turn      one row: the last number, its chain, its time. Who has
 *                       locked it has the turn
 *     tidings_records   number, chain, broker, record
 *     tidings_barrier   one row a broker (pg_connection.h)
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

#include "broker/journal/pg_connection.h"
#include "broker/log/journal.h"
#include "proto/problem.h"
#include "proto/status.h"

struct log;

/* Makes a journal that has no connection yet: its turns make one. What
 * `options` points to is lent as long as the journal lives. STATUS_INVALID: the
 * address cannot be read. */
MUST_CHECK enum status pg_journal_open(struct journal **journal,
                                       const struct pg_options *options,
                                       struct problem *why);

/* Starts the thread that hands the records of others to the log, until
 * pg_journal_stop. Call that before log_stop. */
MUST_CHECK enum status pg_journal_follow(struct journal *journal,
                                         struct log *log, struct problem *why);
void pg_journal_stop(struct journal *journal);

#endif

/*
 * pg_journal.h - the journal of a cluster in PostgreSQL.
 *
 *     tidings_turn      one row, which is never written. Who has locked it has
 *                       the turn
 *     tidings_records   number, chain, time, broker, record; record 0 is empty,
 *                       and its chain is where the cluster began
 *     tidings_brokers   one row a broker: its process (pg_connection.h), how
 *                       far its copy is
 *     tidings_cluster   one row: the public URL of all brokers
 *
 * A turn is a transaction that has locked the row: few bytes pass meanwhile,
 * for a broker that is behind reads the records first. It ends with its
 * connection: a broker that dies gives the turn back. The server takes it from
 * a broker that stands still for two seconds
 * (idle_in_transaction_session_timeout). A record follows only the number
 * before its own, so two brokers can never add the same number.
 *
 * A broker whose last turn brought no record of others presumes the next ones:
 * it locks the row, adds its record and commits in one round trip.
 *
 * Two connections: one for the turns of the log thread, one for a thread that
 * follows what others add. NOTIFY wakes that thread; it looks each second
 * besides.
 */
#pragma once

#include "broker/journal/cluster_report.h"
#include "broker/journal/pg_connection.h"
#include "broker/log/journal.h"

struct log;

/* Adds record $1, if it follows the last one and `condition` is true: its chain
 * $2, the journal's time $3, the broker $4, its bytes: `record` has them, out
 * of $5. Returns a row if it did, and notifies the followers. The number is the
 * primary key: whoever is second, perhaps without having seen the first one,
 * adds nothing. */
#define PG_APPEND_IF(record, condition)                                      \
    "INSERT INTO tidings_records(n, chain, at_us, broker, bytes, record)"    \
    " SELECT $1::bigint, $2::bytea, $3::bigint, $4::text,"                   \
    "  last.bytes + length(new.record), new.record FROM"                     \
    "  (SELECT " record ") AS new(record),"                                  \
    "  (SELECT n, chain, bytes FROM tidings_records ORDER BY n DESC LIMIT 1" \
    "  ) AS last WHERE last.n = $1::bigint - 1 AND " condition               \
    " ON CONFLICT (n) DO NOTHING"                                            \
    " RETURNING n, pg_notify('tidings_records', '')"

#define PG_WHOLE "$5::bytea"

/* Makes a journal that has no connection yet: its turns make one. What
 * `options` points to is lent as long as the journal lives, and so is `dir`,
 * the data directory, which keeps the last records of the copy
 * (kept_records.h); NULL: it does not. The journal forgets records before the
 * last `keep_bytes` of them. STATUS_INVALID: the address cannot be read. */
MUST_CHECK enum status pg_journal_open(struct journal **journal,
                                       const struct pg_options *options,
                                       const char *dir, uint64_t keep_bytes,
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

/* The report on the cluster that this thread keeps; lent. */
struct cluster_report *pg_journal_report(struct journal *journal);

/*
 * pg_streams.h - leases and streams of a cluster in PostgreSQL.
 *
 *     tidings_leases    name, broker, its process (instance), term
 *     tidings_streams   one row a stream: its last number
 *     tidings_rows      stream, key, number, value (NULL: deleted)
 *     tidings_orders    of brokers that do not own, with the owner's answers
 *
 * An append locks the row of the lease in its own transaction (FOR SHARE), and
 * the next owner changes that row: so one of the two is first. An owner that
 * stands still within an append loses the lock with its transaction after two
 * seconds (pg_connection.h).
 *
 * A lease ends by the clock of the broker that asks for it, which has seen one
 * version of its row for LEASE_US.
 */
#pragma once

#include "broker/cluster/streams.h"
#include "broker/journal/pg_connection.h"

/* Makes the streams, for one thread, without a connection yet. What `options`
 * points to is lent. */
struct streams *pg_streams_open(const struct pg_options *options);

/*
 * pg_options.h - the address of the database of a cluster, and the name of
 * the broker that connects.
 * For parts that do not know libpq.
 */
#ifndef BROKER_JOURNAL_PG_OPTIONS_H
#define BROKER_JOURNAL_PG_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/status.h"

/* A process has a random instance, by which the sessions at the server show
 * whether it lives. */
#define PG_INSTANCE_SIZE 16

struct pg_options {
    const char *address;    /* "host=... dbname=..." or "postgresql://..."; may
                               name several hosts */
    const char *broker;     /* this broker's name; NULL: a command, which claims
                               none and commits no barrier */
    const char *public_url; /* of this broker, if it has a name */
    const char *instance;   /* of this process, likewise: pg_make_instance */
    bool is_reader; /* it writes its own row of tidings_brokers, and nothing
                       else: its account needs no right to more */
    bool is_unsafe; /* a server will do that does not wait for a standby, or for
                       its disk */
    int64_t patience_us; /* for a connection with its checks, and for a run */
};

/* Checks the text of an address: libpq can read it, and it has no password,
 * which belongs in a file. STATUS_INVALID; the problem does not quote it. */
MUST_CHECK enum status pg_check_address(const char *address,
                                        struct problem *why);

/* Makes the instance of this process, for all its connections. STATUS_IO. */
MUST_CHECK enum status pg_make_instance(char instance[PG_INSTANCE_SIZE + 1],
                                        struct problem *why);

#endif

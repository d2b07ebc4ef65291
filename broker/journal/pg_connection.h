/*
 * pg_connection.h - a connection to a PostgreSQL server, with checks and
 * deadlines.
 *
 * The broker believes only a server that keeps its commits. So each new
 * connection
 *
 *   - asks for the settings on which durability rests: fsync,
 *     full_page_writes, a synchronous standby. A standby does not copy them, so
 *     after a failover they may be others;
 *   - goes to a primary: a standby may show commits that are lost later;
 *   - commits something of its own, the barrier. A commit whose wait for a
 *     standby was cut off by a restart is visible, and lost with that machine;
 *     behind the barrier, all that can be read is on two machines. The barrier
 *     is the broker's row, which claims its name for this process: the claim
 *     fails while another process with that name has a session, or had one some
 *     seconds ago. And it fails if the cluster has another public URL.
 *
 * At the server, statements wait without a limit. Here they have a deadline, at
 * which the connection is closed: a cancelled COMMIT would tell of a success
 * that is none.
 *
 * A connection belongs to one thread.
 */
#ifndef BROKER_JOURNAL_PG_CONNECTION_H
#define BROKER_JOURNAL_PG_CONNECTION_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/journal/pg_options.h"
#include "proto/problem.h"
#include "proto/resourcesync/digest.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Most values of a statement. */
#define PG_VALUES_MAX 8

/* Most statements that a connection prepares. */
#define PG_PREPARED_MAX 16

/* The name of a session, with the instance behind it. */
#define PG_SESSION "tidingsd "

struct pg_connection {
    struct pg_options options; /* what it points to is lent */
    PGconn *handle;            /* NULL: closed */
    unsigned host;             /* of those in the address, the next to try */
    bool is_cancelled;         /* a COMMIT ended without its standby */
    bool has_name;             /* of the last attempt to connect */
    int64_t until_us;          /* the owner's; steady clock: connecting and runs
                                  end then, however patient; 0: no such time */
    const char *prepared[PG_PREPARED_MAX]; /* here; the name of each is its
                                              index */
    unsigned n_prepared;
    uint64_t preparing; /* of the run under way: a bit for each statement that
                           is prepared first */
};

/* The values are bytes in binary form, as PostgreSQL's types have them. */
struct pg_statement {
    const char *sql;
    struct slice values[PG_VALUES_MAX];
    int n_values;
    bool is_frequent; /* `sql` is a constant: the server parses and plans it
                         once for a connection */
};

/* Receives the rows of a statement, by its index in the run, in binary form. */
typedef enum status pg_rows_fn(size_t statement, const PGresult *rows,
                               void *user, struct problem *why);

void pg_init(struct pg_connection *c, const struct pg_options *options);

/* Connects, unless it is connected, to a primary. It asks the hosts of the
 * address in turn; the primary of last time is first. Then it checks the
 * server, and commits the barrier. STATUS_UNREACHABLE: no primary answered in
 * time. STATUS_REFUSED: the server is not to be trusted. STATUS_INVALID: the
 * database has no cluster, or it has another public URL. STATUS_CONFLICT:
 * another broker has the name. No password gets into `why`. */
MUST_CHECK enum status pg_connect(struct pg_connection *c, struct problem *why);

/* Sends statements, which one round trip will run, and returns when all of it
 * has left: the values are the caller's again. pg_receive has to follow.
 * STATUS_IO: nobody knows what was run; the connection is closed. */
MUST_CHECK enum status pg_send(struct pg_connection *c,
                               const struct pg_statement *statements, size_t n,
                               struct problem *why);

/* Waits for the results of what pg_send has sent, as pg_run does. */
MUST_CHECK enum status pg_receive(struct pg_connection *c, pg_rows_fn *on_rows,
                                  void *user, struct problem *why);

/* Runs statements in one round trip and waits for all of them. `on_rows` may be
 * NULL. STATUS_OK, or the status of on_rows: the server ran all of them.
 * STATUS_REFUSED: the server refused one and skipped the rest; an open
 * transaction is lost. STATUS_IO, also of on_rows: nobody knows; the connection
 * is closed. */
MUST_CHECK enum status pg_run(struct pg_connection *c,
                              const struct pg_statement *statements, size_t n,
                              pg_rows_fn *on_rows, void *user,
                              struct problem *why);

/* Behind a COMMIT, in the same run; its row is for pg_judge_commit. A failover
 * manager that sees no standby may empty synchronous_standby_names: then all
 * commits that wait for a standby return at once. */
#define PG_WAITS_FOR_STANDBY \
    "SELECT (current_setting('synchronous_standby_names') <> '')::int::bigint"

/* STATUS_IO: the commit may be on one machine alone. */
MUST_CHECK enum status pg_judge_commit(const struct pg_connection *c,
                                       const PGresult *rows,
                                       struct problem *why);

/* Waits until the server sends a notification, `fd` can be read (-1: none), or
 * `wait_us` have passed. Sets *is_notified to true if a session other than
 * `own_pid` (0: any) has sent one. STATUS_IO: the connection is lost, and
 * closed. */
MUST_CHECK enum status pg_listen(struct pg_connection *c, int fd,
                                 int64_t wait_us, int own_pid,
                                 bool *is_notified, struct problem *why);

void pg_close(struct pg_connection *c);

/* Values: big-endian, as PostgreSQL has them. `room` keeps the bytes. */
struct slice pg_number(uint64_t number, char room[8]);
uint64_t pg_get_number(const PGresult *rows, int row, int column);
struct slice pg_get_bytes(const PGresult *rows, int row, int column);

/* False: it is no digest. */
bool pg_get_digest(const PGresult *rows, int row, int column,
                   struct digest *digest);

#endif

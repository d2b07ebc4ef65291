/*
 * pg_connection.h - a connection to a PostgreSQL server, with checks and
 * deadlines.
 *
 * The broker believes only a server that keeps its commits. So each new
 * connection
 *
 *   - asks for the settings on which durability rests: fsync,
 *     full_page_writes, and a synchronous standby, or what is in its place
 *     (enum durable_by). A standby does not copy them, so after a failover they
 *     may be others;
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
 * that is none. The deadline counts from the last bytes that moved: a slow line
 * is no fault.
 *
 * A statement has its values, and says what becomes of its rows:
 *
 *     const struct pg_statement statements[] = {
 *         {"BEGIN"},
 *         {"SELECT n, chain FROM tidings_turn WHERE one = $1", DB_VALUES(1),
 *          .into = DB_INTO(&n, &chain), .absent = STATUS_REFUSED,
 *          .reason = "the tables are empty"},
 *     };
 *
 *     rc = pg_run(c, statements, 2, why);
 *
 * Only this file knows libpq. A connection belongs to one thread.
 */
#pragma once

#include "base/db_values.h"
#include "broker/config/config.h"

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
    bool is_reader;     /* it writes its own row of tidings_brokers, and nothing
                       else: its account needs no right to more */
    bool waits_for_all; /* for the reports of brokers, until they leave */
    enum durable_by durable_by; /* chooses the settings that it asks for */
    int64_t clock_us;    /* a server's clock may be so far from this broker's */
    int64_t patience_us; /* for a connection with its checks, and for a run */
};

/* Those of a command, and of a broker that is not in its cluster yet: it waits
 * ten seconds for a connection, and for an answer. `address` is lent. */
static inline struct pg_options
pg_options_of(const char *address, enum durable_by durable_by)
{
    return (struct pg_options){
        .address = address, .durable_by = durable_by, .patience_us = 10000000};
}

/* Checks the text of an address: libpq can read it, and it has no password,
 * which belongs in a file. STATUS_INVALID; the problem does not quote it. */
MUST_CHECK enum status pg_check_address(const char *address,
                                        struct problem *why);

/* Makes the instance of this process, for all its connections. STATUS_IO. */
MUST_CHECK enum status pg_make_instance(char instance[PG_INSTANCE_SIZE + 1],
                                        struct problem *why);

/* Most values of a statement. */
#define PG_VALUES_MAX 8

/* Most statements that a connection prepares. */
#define PG_PREPARED_MAX 16

/* The name of a session, with the instance behind it. */
#define PG_SESSION "tidingsd "

/* A stream of tidings_notes: records were given up (pg_journal.c). */
#define PG_EPOCHS "epochs"

/* Of a row b of tidings_brokers: its process has sessions. */
#define PG_IS_RUNNING                      \
    "EXISTS (SELECT FROM pg_stat_activity" \
    " WHERE application_name = '" PG_SESSION "' || b.instance)"

/* Begins as {.options = ...}. */
struct pg_connection {
    struct pg_options options; /* what it points to is lent */
    struct pg_conn *handle;    /* libpq's; NULL: closed */
    unsigned host;             /* of those in the address, the next to try */
    unsigned primary;          /* likewise, the last that took writes */
    bool is_standby;           /* the server that was tried last */
    char name[280];            /* HOST:PORT of the one that was tried last */
    int64_t server;            /* another number after each change that may
                                  lose commits: a failover, a restart */
    int64_t since_us;          /* connected; steady clock */
    bool is_late;              /* a wait has reached its deadline */
    unsigned n_late;           /* attempts to connect in a row that were late */
    bool has_cluster;          /* the database, as this session sees it */
    char schema[64];           /* where the database has a cluster; "": none */
    bool is_cancelled;         /* a COMMIT ended without its standby */
    int64_t until_us;          /* the owner's; steady clock: connecting and runs
                                  end then, however patient, or later while bytes
                                  move, which moves it; 0: no such time */
    int64_t deadline_us;       /* of the wait under way, likewise */
    int64_t look_us;           /* when it looks whether bytes move */
    uint64_t moved;            /* bytes, then, and 1; 0: it has not looked */
    int64_t loaded_us; /* when the server had last loaded its settings, by its
                          clock, at the last proof (pg_prove) */
    const char *prepared[PG_PREPARED_MAX]; /* here; the name of each is its
                                              index */
    unsigned n_prepared;
    uint64_t preparing; /* of the run under way: a bit for each statement that
                           is prepared first */
};

/* The rows of a statement. */
struct pg_rows {
    const struct pg_result *result; /* libpq's; lent */
    int next;
};

/* Reads the next row. False: there is none. Of a row, a bool is a bigint. */
#define PG_NEXT(rows, ...) pg_next((rows), DB_INTO(__VA_ARGS__))

bool pg_next(struct pg_rows *rows, const struct db_target *into);

/* A statement and what becomes of its rows, which are in binary form: an
 * integer is a bigint. All is lent until the run has ended. */
struct pg_statement {
    const char *sql;
    const struct db_value *values; /* DB_VALUES; NULL: none */

    /* The first row; NULL: nobody wants it. No place is a slice. */
    const struct db_target *into;

    /* Receives all rows instead; NULL: `into` does. */
    enum status (*each)(struct pg_rows *rows, void *user, struct problem *why);
    void *user;

    /* Without a row: STATUS_OK, or the status of the run, with the reason. */
    enum status absent;
    const char *reason;

    bool is_frequent; /* `sql` is a constant: the server parses and plans it
                         once for a connection */
};

/* It has not reported for long. Without a word a process loses its name; one
 * that follows may need a while for a large record on a slow line. */
#define PG_IS_SILENT                                              \
    "(b.at < now() - CASE WHEN b.state ~ '^(catching-up|behind)'" \
    " THEN interval '1 minute' ELSE interval '5 seconds' END)"

/* Connects to the next host of the address alone, without any check, within the
 * patience, or, if it `is_one_of_all`, its part of that. `kind`: "any" server,
 * or one that is "read-write". *n_hosts: how many the address has. STATUS_IO. */
MUST_CHECK enum status pg_open(struct pg_connection *c, const char *kind,
                               bool is_one_of_all, unsigned *n_hosts,
                               struct problem *why);

/* Connects, unless it is connected, to a primary. It asks the hosts of the
 * address in turn, the primary of last time first; a host that used up the time
 * is the last one of the next attempt. Then it checks the server, and commits
 * the barrier. After an attempt in which a server was late the next one waits
 * for twice as long: a busy server makes a process for each connection, and
 * would make more and more of them for brokers that give up too soon.
 * STATUS_UNREACHABLE: no primary answered in time; of several reasons `why` has
 * that of the last primary. STATUS_REFUSED: the server is not to be trusted.
 * STATUS_INVALID: the database has no cluster, or it has another public URL.
 * STATUS_CONFLICT: another broker has the name. No password gets into `why`. */
MUST_CHECK enum status pg_connect(struct pg_connection *c, struct problem *why);

/* Checks that the session sees the cluster that the database has, if it has
 * one. STATUS_REFUSED: its search_path leads elsewhere. */
MUST_CHECK enum status pg_check_schema(const struct pg_connection *c,
                                       struct problem *why);

/* Sends statements, which one round trip will run, and returns when all of it
 * has left: the values are the caller's again. pg_receive has to follow.
 * STATUS_IO: nobody knows what was run; the connection is closed. */
MUST_CHECK enum status pg_send(struct pg_connection *c,
                               const struct pg_statement *statements, size_t n,
                               struct problem *why);

/* Waits for the results of what pg_send has sent, as pg_run does. The values
 * no longer count. */
MUST_CHECK enum status pg_receive(struct pg_connection *c,
                                  const struct pg_statement *statements,
                                  struct problem *why);

/* Runs statements in one round trip and waits for all of them. STATUS_OK, or
 * the first status of `each` or `absent`: the server ran all of them.
 * STATUS_REFUSED: the server refused one and skipped the rest; an open
 * transaction is lost. STATUS_IO, also of a statement: nobody knows; the
 * connection is closed. */
MUST_CHECK enum status pg_run(struct pg_connection *c,
                              const struct pg_statement *statements, size_t n,
                              struct problem *why);

/* Ends an open transaction without a change. A failure closes the connection,
 * which ends it as well. */
void pg_roll_back(struct pg_connection *c);

/* Reading shows a broker some commits that only this server has. They are lost
 * with it, so the broker must not show them to others.
 *
 * A failover manager that sees no standby may empty synchronous_standby_names:
 * then all commits return at once, also those that wait, and everybody sees
 * them. When the names are there again, these commits are on one machine still.
 * A later commit that waited for a standby proves them: the standby has the
 * log of the server up to there.
 *
 * pg_prove makes such a commit, and notes when the server last loaded its
 * settings: they do not change without that. Each statement behind a read or a
 * COMMIT, PG_WAITS_FOR_STANDBY, compares: as long as the names are there and no
 * settings were loaded, each commit that can be seen has waited, or is older
 * than the proof. The server tells its sessions of new settings before it lets
 * commits return, and a session reads them before its next statement: so the
 * comparison stands behind what it is for, in a statement of its own.
 *
 * STATUS_LATE: prove it anew. Behind a COMMIT that is the proof of that commit
 * as well. Not seen: a wait that an administrator cancels by hand, and a server
 * that needs more than a second to let its commits wait by new settings. */
#define PG_NO_STANDBY                                                      \
    "PostgreSQL: synchronous_standby_names is empty: it answers before a " \
    "second machine has a commit"
#define PG_WAITS  "current_setting('synchronous_standby_names') <> ''"
#define PG_LOADED "(extract(epoch FROM pg_conf_load_time()) * 1000000)::bigint"
#define PG_WAITS_FOR_STANDBY(...)                                       \
    {                                                                   \
        "SELECT 1 WHERE $1::bigint = 1 OR (" PG_WAITS " AND " PG_LOADED \
        " = $2::bigint)",                                               \
            __VA_ARGS__.absent = STATUS_LATE, .reason = PG_NO_STANDBY,  \
            .is_frequent = true,                                        \
    }
#define PG_STANDBY_VALUES(c) \
    DB_VALUES((c)->options.durable_by != DURABLE_STANDBYS, (c)->loaded_us)

/* Proves that all that could be read before is on a second machine, by a commit
 * of its own. STATUS_IO: it is not; the connection is closed. */
MUST_CHECK enum status pg_prove(struct pg_connection *c, struct problem *why);

/* True in a session that has the settings of pg_connect. */
#define PG_IS_OWN_SESSION \
    "current_setting('tidings.session', true) = pg_backend_pid()::text"
#define PG_POOLER                                                             \
    "a pooler (PgBouncer) before it hands out sessions by transaction: give " \
    "the server's own address"

/* True if the server has not closed the connection, or said anything. */
bool pg_is_quiet(const struct pg_connection *c);

/* The server's number of the session, as pg_listen knows it. */
int pg_session(const struct pg_connection *c);

/* Waits until the server sends a notification, `fd` can be read (-1: none), or
 * `wait_us` have passed. Sets *is_notified to true if a session other than
 * `own_pid` (0: any) has sent one. STATUS_IO: the connection is lost, and
 * closed. */
MUST_CHECK enum status pg_listen(struct pg_connection *c, int fd,
                                 int64_t wait_us, int own_pid,
                                 bool *is_notified, struct problem *why);

void pg_close(struct pg_connection *c);

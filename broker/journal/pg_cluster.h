/*
 * pg_cluster.h - the tables of a cluster: begins the cluster, lists its
 * brokers, takes a broker out. For commands: each call but pg_cluster_read
 * makes a connection that has no broker's name, and closes it.
 */
#pragma once

#include "broker/journal/pg_connection.h"
#include "broker/log/journal.h"

/* Makes the tables in a database that has none of them; the first broker's
 * copy is at `place`, behind which all its sets begin new epochs or do not.
 * Does nothing if the same cluster is there, and nobody has added a record.
 * STATUS_CONFLICT: the database has another one. */
MUST_CHECK enum status pg_cluster_begin(const struct pg_options *options,
                                        const char *public_url,
                                        const struct journal_place *place,
                                        bool has_new_epochs,
                                        struct problem *why);

/* Has the next turn begin new epochs of all sets. The caller has given up a
 * copy with another history, whose entries readers may have. Its new
 * copy is at `place`. */
MUST_CHECK enum status
pg_cluster_begin_epochs(const struct pg_options *options,
                        const struct journal_place *place, struct problem *why);

/* Gives lost records back to a journal that ends before `place`. The copy in
 * the data directory `dir` is at that place, and has kept the records
 * (kept_records.h). Streams begin again, with the rows of their next owner.
 * *n_given: how many; 0 if the journal lacks none that any broker has.
 * STATUS_NOT_FOUND: the database has no cluster. STATUS_CONFLICT: another
 * public URL; a broker runs; another broker has more
 * than this copy; or the kept records do not lead from its end to `place`,
 * because they are not all there, or because the journal has another history.
 * Nothing is changed then. */
MUST_CHECK enum status
pg_cluster_return(const struct pg_options *options, const char *public_url,
                  const char *dir, const struct journal_place *place,
                  uint64_t *n_given, struct problem *why);

struct pg_cluster {
    struct journal_place end; /* of the journal */
    uint64_t first;           /* records before it are forgotten */
    uint64_t bytes;           /* of the records from there on */
    uint64_t keep_bytes;      /* most of these: the largest --cluster-keep */
    bool has_other_keeps;     /* some broker has a smaller one */
    uint64_t n_standbys;      /* that have each commit before its answer */
    bool has_standbys;        /* the server waits for some */
    bool has_hidden;          /* it does not show all standbys to this user */
    bool shows_leases;        /* to this user */
    char public_url[512];
};

struct pg_broker {
    struct slice name; /* lent */
    uint64_t n;        /* its copy has the records up to it */
    uint64_t behind;   /* records that it lacks, and their bytes */
    uint64_t behind_bytes;
    bool is_ahead;     /* it has records that the journal has lost */
    bool is_different; /* its last record is another one than the journal's */
    int64_t silent_us; /* since its last report */
    bool is_silent;    /* which is too long: it reports each second */
    char state[1100];  /* reported then: a name (log.h), and the reason behind a
                          space; "": by a program that reports none */
    bool is_running;   /* its process has a session */
    bool is_reader;    /* --cluster-read-only */
    bool has_clock;    /* it has reported its time: */
    int64_t clock_us; /* how far that was ahead of the server's, or behind (less
                         than 0), with the way of the report */
    struct slice owns; /* names of leases, in order; lent; "" if the account
                          may not read them, as that of a reader */
};

/* A state of a broker, as others see it. Its row may show more than it reports:
 * that it is away, for one. */
struct pg_broker_state {
    const char *name;   /* in JSON; the first one is "runs" */
    const char *text;   /* for an operator: "is behind" */
    const char *remedy; /* "": it needs none */
};

extern const struct pg_broker_state pg_broker_states[];

/* True if commits rest on standbys, and none has them. */
bool pg_cluster_lacks_standby(const struct pg_cluster *cluster,
                              enum durable_by durable_by);

/* Sets *why to the reason that the broker reports, lent, or to "". */
const struct pg_broker_state *pg_broker_judge(const struct pg_broker *broker,
                                              const char **why);

/* Looks at the cluster, then at each broker, by name (`on_broker` NULL: at
 * none), in a connection of the caller. No record before cluster->first is
 * left; 0: it may be. */
MUST_CHECK enum status
pg_cluster_read(struct pg_connection *c, struct pg_cluster *cluster,
                void (*on_broker)(const struct pg_broker *broker, void *user),
                void *user, struct problem *why);

/* Does pg_cluster_read in a connection of its own. */
MUST_CHECK enum status
pg_cluster_look(const struct pg_options *options, struct pg_cluster *cluster,
                void (*on_broker)(const struct pg_broker *broker, void *user),
                void *user, struct problem *why);

/* A server of PostgreSQL that the address names. */
struct pg_server {
    char name[280];      /* HOST:PORT */
    struct problem away; /* why it cannot be asked; "": it was */
    bool is_standby;
    bool is_fed;        /* a standby: some server sends it what is new */
    char locks[512];    /* which sessions have locked tables of a cluster, and
                           may keep its brokers waiting; "": none */
    int64_t started_us; /* by its own clock; the same: one server twice */
    int64_t received;   /* bytes of WAL since ever */
};

/* Asks all servers of the address, one after the other, within the patience of
 * the options. The caller frees them. */
struct pg_server *pg_cluster_servers(const struct pg_options *options,
                                     unsigned *n);

/* Checks that a copy at `place` can follow the journal. STATUS_GONE: the
 * journal has forgotten records that the copy needs; STATUS_DIFFERENT: the copy
 * is of another history; STATUS_NOT_FOUND: the journal ends before it. */
MUST_CHECK enum status pg_cluster_check(const struct pg_options *options,
                                        const struct journal_place *place,
                                        struct problem *why);

/* A broker that is to leave its cluster. */
struct pg_leaving {
    const char *name;
    const struct journal_place *place; /* of its copy; NULL: it is lost */
    uint64_t gives_up;                 /* so many records, with consent */

    /* Called if no other broker is left, and the journal ends at `place`: makes
     * the copy a single broker's. Then the tables go. */
    enum status (*release)(void *user, struct problem *why);
    void *user;

    /* Set: */
    struct journal_place end; /* of the journal */
    uint64_t reported;        /* its last record, as of its last report */
    uint64_t n_lost;          /* records that the journal does not have, nor any
                                 other broker: they are given up */
    bool is_last;
};

/* Takes a broker that does not run out of the cluster. STATUS_NOT_FOUND: the
 * cluster has no such broker. STATUS_CONFLICT: the broker runs; or `gives_up` is
 * not n_lost; or the last broker lacks records. */
MUST_CHECK enum status pg_cluster_leave(const struct pg_options *options,
                                        struct pg_leaving *leaving,
                                        struct problem *why);

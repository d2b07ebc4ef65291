/*
 * mqtt_db.h - DIR/mqtt.db: the state of bridges that survives a crash. SQLite,
 * WAL; threads of all bridges share one connection, under a lock. In a cluster
 * each bridge has a connection, and a stream for its rows, for another broker
 * may own the next one. The lock is one all the same: SQLite lets one write at
 * a time, and makes the others look again and again.
 *
 *   bridge   its identity, from which client ids are made; when it was new
 *   lane     of a set: epoch, the last acknowledged entry, and the ends of the
 *            messages that were begun behind it
 *   filter   a filter that was subscribed to
 *
 * How firmly: a new bridge or lane with an fsync, because its row says where it
 * began, and earlier entries are not published. The progress of lanes without
 * one: the kernel has it, kill -9 loses none of it; after a power failure it
 * may be older, and then the bridge repeats more messages.
 *
 * A lane is written before its messages are published: so messages that are
 * repeated after a crash have the same ends, and a receiver finds its position
 * among them. If the disk refuses, the bridge logs that, and publishes all the
 * same: committed changes are delivered (design: a slow disk slows posts, never
 * deliveries). Not so in a cluster, where the journal may refuse because
 * another broker owns the bridges: then the bridge waits.
 */
#pragma once

#include <pthread.h>

#include "broker/cluster/owned_db.h"
#include "broker/cluster/ownership.h"
#include "proto/resourcesync/position.h"

/* For its users: owned, right. */
struct mqtt_db {
    pthread_mutex_t *mutex; /* protects all below, and other connections to
                               the file */
    struct db db;
    struct owned_db *owned;       /* of a cluster, where the bridge publishes
                                     nothing that mqtt.db does not keep; NULL:
                                     this broker is alone */
    struct ownership_right right; /* likewise: another broker may own the
                                     bridges. Set before other threads */
    struct buf ends;              /* encoded ends, to write */
    uint64_t *read;               /* decoded ends, as read */
    size_t read_capacity;
};

/* Its tables, and its place in the data directory and the cluster. */
extern const struct db_kind mqtt_db_kind;
extern const struct owned_file mqtt_db_file;

/* Opens it as owned_file_open does, for the rows of the bridge whose right that
 * is. `right` NULL: this broker is alone, and has all bridges. `mutex` is the
 * lock of all that are open, lent. */
MUST_CHECK enum status mqtt_db_open(struct mqtt_db **db, const char *dir,
                                    const struct ownership_right *right,
                                    pthread_mutex_t *mutex,
                                    struct problem *why);

void mqtt_db_close(struct mqtt_db *db); /* NULL is allowed */

/* Hexadecimal, and a NUL. */
#define BRIDGE_IDENTITY_SIZE 9

struct bridge_row {
    char identity[BRIDGE_IDENTITY_SIZE]; /* random; made when the bridge was
                                            new */
    int64_t since_us; /* when the bridge was new: it publishes younger sets from
                         their beginning */
    char owner[64];   /* the broker of a cluster that began it last */
};

/* Finds the bridge of that name, or makes its row, durably; `owner` begins it.
 */
MUST_CHECK enum status mqtt_db_bridge(struct mqtt_db *db, const char *name,
                                      const char *owner, struct bridge_row *row,
                                      struct problem *why);

/* Sets row->owner alone, at a broker that does not own the bridge; "": nobody
 * has begun it, as far as the mqtt.db of `dir` knows. */
void mqtt_db_find_owner(const char *dir, const char *bridge,
                        struct bridge_row *row);

/* A row of a lane. `set` and `ends` are lent. */
struct lane_row {
    struct slice set;
    char epoch[EPOCH_SIZE + 1];
    uint64_t acked;
    const uint64_t *ends; /* of messages behind `acked`, ascending */
    size_t n_ends;
};

/* Moves *end, which is the `acked` of a lane, to the last of its encoded ends.
 * False: they are damaged. */
bool mqtt_db_last_end(uint64_t *end, struct slice ends);

/* Calls `fn` for every lane of a bridge, by name, until `fn` returns an error.
 * The lock is held: `fn` must not call mqtt.db. */
MUST_CHECK enum status
mqtt_db_lanes(struct mqtt_db *db, const char *bridge,
              enum status (*fn)(const struct lane_row *row, void *user),
              void *user, struct problem *why);

/* Writes lanes, all in one transaction: after mqtt_db_begin (`is_firm`: with an
 * fsync) mqtt_db_end must follow, with the first error; it ends as that, or as
 * the commit. */
MUST_CHECK enum status mqtt_db_begin(struct mqtt_db *db, bool is_firm,
                                     struct problem *why);
MUST_CHECK enum status mqtt_db_keep(struct mqtt_db *db, const char *bridge,
                                    const struct lane_row *row,
                                    struct problem *why);
MUST_CHECK enum status mqtt_db_end(struct mqtt_db *db, enum status rc,
                                   struct problem *why);

/* Deletes the row of a removed set. */
MUST_CHECK enum status mqtt_db_forget(struct mqtt_db *db, const char *bridge,
                                      struct slice set, struct problem *why);

/* Granted filters of a bridge: calls `fn` for each; adds one, or removes it. */
MUST_CHECK enum status mqtt_db_filters(struct mqtt_db *db, const char *bridge,
                                       enum status (*fn)(const char *filter,
                                                         void *user),
                                       void *user, struct problem *why);
MUST_CHECK enum status mqtt_db_set_filter(struct mqtt_db *db,
                                          const char *bridge,
                                          const char *filter, bool is_granted,
                                          struct problem *why);

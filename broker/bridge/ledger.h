/*
 * ledger.h - DIR/mqtt.db: what bridges must know after a crash. SQLite, WAL;
 * threads of all bridges share one connection, under a lock.
 *
 *   bridge   identity, from which client ids are made; since when there is one
 *   lane     of a set: epoch, the last entry that was acknowledged, and where
 *            the messages end that were begun behind it
 *   filter   what was subscribed to
 *
 * How firmly: a new bridge or lane with an fsync, for they say where it began,
 * and what was before that is not told. The progress of lanes without one: the
 * kernel has it, kill -9 loses none of it; after a power failure it may be
 * older, and then more is told again.
 *
 * A lane is written before its messages are published: so what is told again
 * after a crash has the same ends as before, and a receiver finds its position
 * in it. If the disk refuses, that is said, and messages go out all the same:
 * what is committed is delivered (design: a slow disk slows posts, never
 * deliveries).
 */
#ifndef BROKER_BRIDGE_LEDGER_H
#define BROKER_BRIDGE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct ledger;

/* (A program's ledger_open is that of client/watch.) */
MUST_CHECK enum status bridge_ledger_open(struct ledger **ledger,
                                          const char *dir, struct problem *why);
void bridge_ledger_close(struct ledger *ledger); /* NULL is allowed */

/* Could bridge_ledger_open use what is in `dir`? Writes nothing. */
MUST_CHECK enum status bridge_ledger_check(const char *dir,
                                           struct problem *why);

/* Hexadecimal, and a NUL. */
#define BRIDGE_IDENTITY_SIZE 9

struct bridge_row {
    char identity[BRIDGE_IDENTITY_SIZE]; /* random, made when it was new */
    int64_t since_us; /* when it was new: sets that are younger are told from
                         their beginning */
};

/* Finds the bridge of that name, or makes it, durably. */
MUST_CHECK enum status ledger_bridge(struct ledger *ledger, const char *name,
                                     struct bridge_row *row,
                                     struct problem *why);

/* A lane as it is kept. `set` and `ends` lent. */
struct lane_row {
    struct slice set;
    char epoch[EPOCH_SIZE + 1];
    uint64_t acked;
    const uint64_t *ends; /* of messages behind `acked`, growing */
    size_t n_ends;
};

/* Calls `fn` for every lane of a bridge, by name. Another status than 0 ends
 * it. Under the lock: it calls nothing of the ledger. */
MUST_CHECK enum status
ledger_lanes(struct ledger *ledger, const char *bridge,
             enum status (*fn)(const struct lane_row *row, void *user),
             void *user, struct problem *why);

/* Writes lanes, all in one transaction; `is_firm`: with an fsync. */
MUST_CHECK enum status ledger_keep(struct ledger *ledger, const char *bridge,
                                   const struct lane_row *rows, size_t n,
                                   bool is_firm, struct problem *why);

/* The set was removed. */
MUST_CHECK enum status ledger_forget(struct ledger *ledger, const char *bridge,
                                     struct slice set, struct problem *why);

/* Filters that a bridge was granted: `fn` for each; adding; taking away. */
MUST_CHECK enum status ledger_filters(struct ledger *ledger, const char *bridge,
                                      enum status (*fn)(const char *filter,
                                                        void *user),
                                      void *user, struct problem *why);
MUST_CHECK enum status ledger_add_filter(struct ledger *ledger,
                                         const char *bridge, const char *filter,
                                         struct problem *why);
MUST_CHECK enum status ledger_drop_filter(struct ledger *ledger,
                                          const char *bridge,
                                          const char *filter,
                                          struct problem *why);

#endif

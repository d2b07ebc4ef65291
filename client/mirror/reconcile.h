/*
 * reconcile.h - makes a database that has followed a set equal to the set, by
 * reading only what differs (Negentropy; proto/resourcesync/negentropy.h).
 *
 *     follow --> reconcile_find --> follow again --> reconcile_settle
 *                      +-- the source is where it was ------^
 *
 * Both sides go on meanwhile, so a difference counts only if it is no lag:
 *
 *   - An entry that only the source has counts if its seq is not behind the
 *     position before reconcile_find: otherwise the second follow has it.
 *   - A resource that only the database has counts if the second follow has
 *     left it as it was.
 *
 * Blocks.
 */
#pragma once

#include "client/mirror/mirror.h"

/* More differences than that are no less work than the whole list. */
#define RECONCILE_MOST 20000

struct reconciliation;

/* Of several sets together. A changed resource has two ids. */
struct reconcile_counts {
    unsigned n_requests;
    size_t n_differing; /* ids */
};

/* Prepares the comparison of a set of the database. NULL: its source offers
 * none, or there is no memory. */
struct reconciliation *reconcile_new(struct mirror *m, const char *url,
                                     struct reconcile_counts *counts);

/* Compares the set, which has a position in the database, with the source.
 * STATUS_TOO_LARGE: more than RECONCILE_MOST differences; STATUS_MALFORMED:
 * what the source answers is no answer, or has no end. */
MUST_CHECK enum status reconcile_find(struct reconciliation *r,
                                      struct problem *why);

/* After reconcile_find: the source has compared what it had at the position of
 * the database, so there is nothing to follow before reconcile_settle. */
bool reconcile_is_current(const struct reconciliation *r);

/* Makes the set equal to the source. */
MUST_CHECK enum status reconcile_settle(struct reconciliation *r,
                                        struct problem *why);

void reconcile_free(struct reconciliation *r); /* NULL is allowed */

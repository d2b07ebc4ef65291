/*
 * changedumps.h - of which closed Change List a Change Dump is built next, and
 * when: of each, oldest first, as soon as all content that it tells of is there
 * (R-194, R-202).
 *
 *                       +-- not closed, or its content not folded: waits
 *     the next list ----+-- content may still be fetched: waits
 *        ^  ^           +-- content is complete --> built, a step at a time --+
 *        |  |           +-- it will never be complete, or is damaged --+     |
 *        |  +------------------ passed over: a gap --------------------+     |
 *        +----------------------- current ----------------------------------+
 *
 * Behind a gap the run of dumps begins anew (documents/dumps.c). Nothing is
 * kept of where this stands: after a restart it goes on behind the current
 * dump, and passes the same lists over.
 *
 * Retention waits for a list whose dump is being built, or can be: else a set
 * with a short history would have gaps for no reason but the order of two tasks
 * of one thread. It does not wait for content that is still to be fetched, nor
 * after a failure, nor for more than CHANGEDUMPS_WAITING lists: dumps are made
 * of the history, and must not make it grow without bound. So a list that goes
 * undumped is a gap like any other.
 *
 * One build at a time; sets take turns. Archive thread.
 */
#ifndef BROKER_ARCHIVE_CHANGEDUMPS_H
#define BROKER_ARCHIVE_CHANGEDUMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/chore.h"
#include "broker/archive/contents.h"
#include "broker/archive/turn.h"
#include "broker/sets/registry.h"

struct changedump;

/* Lists that retention would let go and that wait for dumps, at most. */
#define CHANGEDUMPS_WAITING 64

struct changedumps {
    struct chore chore;
    struct registry *registry;
    struct contents *contents; /* lent */
    struct set *set;           /* whose dump is built; NULL: none is */
    uint64_t list;             /* of that list, which may go meanwhile */
    struct changedump *build;

    struct turn turn;
    bool is_due;   /* there is a turn to be taken */
    bool is_again; /* a set has a next list */
};

void changedumps_init(struct changedumps *dumps, struct registry *registry,
                      struct contents *contents);

/* Is that closed list of the set to stay for its dump? */
bool changedumps_needs(struct set *set, const struct list_info *list);

#endif

/*
 * changedumps.h - schedules Change Dumps: one for each closed Change List,
 * oldest first, as soon as all content that its entries describe is there
 * (R-194, R-202).
 *
 *                       +-- not closed, or its content not folded: waits
 *     the next list ----+-- content may still be fetched: waits
 *        ^  ^           +-- content is complete --> built, a step at a time --+
 *        |  |           +-- it will never be complete, or is damaged --+      |
 *        |  +------------------ passed over: a gap --------------------+      |
 *        +------------------------ current -----------------------------------+
 *
 * Behind a gap the run of dumps begins anew (documents/generation_document.c).
 * The position is not stored: after a restart the schedule goes on behind the
 * current dump, and passes over the same lists.
 *
 * Retention waits for a list whose dump is being built, or can be: else a set
 * with a short history would have gaps for no reason but the order of two tasks
 * of one thread. Retention does not wait for content that is still to be
 * fetched, nor after a failure, nor for more than CHANGEDUMPS_WAITING lists:
 * dumps must not make the history grow without bound. A list that retention
 * removes without a dump is a gap like any other.
 *
 * In a cluster each broker does the same, by the same rows. The first one that
 * has built a dump makes it current; another one that has the same keeps it,
 * and the others build it as well, from its interval: with the same bytes.
 *
 * One build at a time; sets take turns. Archive thread.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/archive/contents.h"
#include "broker/sets/registry.h"

struct build;

/* At most so many lists that retention could remove wait for dumps. */
#define CHANGEDUMPS_WAITING 64

struct changedumps {
    struct chore chore;
    struct registry *registry;
    struct contents *contents; /* lent */
    struct set *set;           /* with a dump at work; NULL: none */
    uint64_t list;             /* its list, which may go meanwhile */
    uint64_t number;           /* of a dump of another broker; 0: none */
    struct build *build;

    struct turn turn;
};

void changedumps_init(struct changedumps *dumps, struct registry *registry,
                      struct contents *contents);

/* True if retention must leave that closed list of the set for its dump. */
bool changedumps_needs(struct set *set, const struct list_info *list);

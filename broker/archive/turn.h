/*
 * turn.h - gives sets their turns: walks all sets in the order of names, and
 * goes on after the last one that wanted something.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_TURN_H
#define BROKER_ARCHIVE_TURN_H

#include <stdbool.h>

#include "broker/sets/registry.h"

struct turn {
    char after[SET_NAME_MAX + 1]; /* the walk goes on behind this name */
};

/* Returns the next set for which `wants` is true; NULL at the end of the walk.
 * The next call then begins anew. */
struct set *turn_next(struct turn *turn, struct registry *registry,
                      bool (*wants)(struct set *set, const struct head *head,
                                    void *user),
                      void *user);

#endif

/*
 * turn.h - sets take turns: a look at all of them, in order of names, that goes
 * on where it stopped at the last one that wanted something.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_TURN_H
#define BROKER_ARCHIVE_TURN_H

#include <stdbool.h>

#include "broker/sets/registry.h"

struct turn {
    char after[SET_NAME_MAX + 1]; /* sets behind it are still to be looked at */
};

/* The next set that `wants` says yes to; NULL: all were looked at, and the next
 * call begins anew. */
struct set *turn_next(struct turn *turn, struct registry *registry,
                      bool (*wants)(struct set *set, const struct head *head,
                                    void *user),
                      void *user);

#endif

/*
 * chores.h - does what the archive thread does with a chore.
 */
#ifndef TESTS_SUPPORT_CHORES_H
#define TESTS_SUPPORT_CHORES_H

#include "broker/archive/chore.h"

static inline bool
chore_step(struct chore *chore)
{
    return chore->step && chore->step(chore);
}

static inline void
chore_end(struct chore *chore)
{
    if (chore->end)
        chore->end(chore);
}

#endif

/*
 * chores.h - does what the archive thread does with a chore.
 */
#ifndef TESTS_SUPPORT_CHORES_H
#define TESTS_SUPPORT_CHORES_H

#include "broker/archive/chore.h"

static inline void
chore_end(struct chore *chore)
{
    struct list alone;

    list_init(&alone);
    list_append(&alone, &chore->node);
    chores_end(&alone);
}

#endif

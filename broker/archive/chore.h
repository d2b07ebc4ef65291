/*
 * chore.h - something that the archive thread does again and again.
 *
 *     each second: look, of all --> one step of each, and again while there is
 *     more to do --> the thread ends: end, of all, the last one first
 *
 * A chore is a member of the struct that does it. The archiver lists them. Each
 * stands behind those whose state it uses, and so ends before them.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_CHORE_H
#define BROKER_ARCHIVE_CHORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "broker/log/log.h"
#include "broker/sets/registry.h"

/* Each function may be NULL. */
struct chore {
    struct list node;

    /* Finds out what is due. */
    void (*look)(struct chore *chore);

    /* Takes milliseconds, or stops when the log is ending (log_ending). false:
     * there is nothing to do, or it cannot be done now. */
    bool (*step)(struct chore *chore);

    /* Must retention leave that closed list of the set? Retention does not ask
     * while more lists than `patience` could go; 0: it always asks. */
    bool (*needs)(struct set *set, const struct list_info *list);
    size_t patience;

    void (*end)(struct chore *chore);
};

static inline void
chore_look(struct chore *chore)
{
    if (chore->look)
        chore->look(chore);
}

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

void chores_look(const struct list *chores);

/* One step of each; false: none has more to do. */
bool chores_step(const struct list *chores);

/* Ends all, and leaves the list empty. */
void chores_end(struct list *chores);

/* Gives sets their turns: walks all sets in the order of names, and goes on
 * after the last one that wanted something. */
struct turn {
    char after[SET_NAME_MAX + 1]; /* the walk goes on behind this name */
    bool is_due;                  /* there is a walk to be made */
    bool is_again;                /* and another one after it */
};

/* Returns the next set for which `wants` is true. NULL: no walk is due, or this
 * one is at its end; the next call begins another one, if that is due. */
struct set *turn_next(struct turn *turn, struct registry *registry,
                      bool (*wants)(struct set *set, const struct head *head,
                                    void *user),
                      void *user);

#endif

#include "broker/archive/chore.h"

#include <stdio.h>

/* Sets read in one go. */
#define PAGE_SETS 32

static struct chore *
chore_of(struct list *node)
{
    return list_entry(node, struct chore, node);
}

void
chores_look(const struct list *chores)
{
    struct list *next;
    struct chore *chore;

    list_each (chore, next, chores, node)
        chore_look(chore);
}

bool
chores_step(const struct list *chores)
{
    struct list *next;
    struct chore *chore;
    bool is_more = false;

    list_each (chore, next, chores, node)
        is_more |= chore_step(chore);
    return is_more;
}

void
chores_end(struct list *chores)
{
    while (!list_is_empty(chores)) {
        struct chore *last = chore_of(chores->prev);

        list_remove(&last->node);
        chore_end(last);
    }
}

struct set *
turn_next(struct turn *turn, struct registry *registry,
          bool (*wants)(struct set *set, const struct head *head, void *user),
          void *user)
{
    struct set *sets[PAGE_SETS];
    struct head heads[PAGE_SETS];
    bool is_more = true;

    if (!turn->is_due)
        return NULL;

    while (is_more) {
        size_t n = PAGE_SETS;

        is_more = registry_page(registry, slice_of(turn->after), NULL, sets,
                                heads, &n);
        for (size_t i = 0; i < n; i++) {
            snprintf(turn->after, sizeof(turn->after), "%s", sets[i]->name);
            if (wants(sets[i], &heads[i], user))
                return sets[i];
        }
    }
    turn->after[0] = '\0';
    turn->is_due = turn->is_again;
    turn->is_again = false;
    return NULL;
}

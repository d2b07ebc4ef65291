#include "broker/archive/chore.h"

static struct chore *
chore_of(struct list *node)
{
    return list_entry(node, struct chore, node);
}

void
chores_look(const struct list *chores)
{
    struct list *node, *next;

    list_foreach (node, next, chores)
        chore_look(chore_of(node));
}

bool
chores_step(const struct list *chores)
{
    struct list *node, *next;
    bool is_more = false;

    list_foreach (node, next, chores)
        is_more |= chore_step(chore_of(node));
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

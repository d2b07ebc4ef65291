#include "broker/archive/turn.h"

#include <stdio.h>

/* Sets read in one go. */
#define PAGE_SETS 32

struct set *
turn_next(struct turn *turn, struct registry *registry,
          bool (*wants)(struct set *set, const struct head *head, void *user),
          void *user)
{
    struct set *sets[PAGE_SETS];
    struct head heads[PAGE_SETS];
    bool is_more = true;

    while (is_more) {
        size_t n = PAGE_SETS;

        is_more =
            registry_page(registry, slice_of(turn->after), sets, heads, &n);
        for (size_t i = 0; i < n; i++) {
            snprintf(turn->after, sizeof(turn->after), "%s", sets[i]->name);
            if (wants(sets[i], &heads[i], user))
                return sets[i];
        }
    }
    turn->after[0] = '\0';
    return NULL;
}

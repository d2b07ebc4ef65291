#include "broker/archive/chore.h"

#include "broker/archive/set_progress.h"
#include "broker/base/metrics.h"

void
chore_look(struct chore *chore)
{
    if (chore->turn)
        chore->turn->is_due = true;
    if (chore->look)
        chore->look(chore);
}

void
chores_look(const struct list *chores)
{
    struct chore *chore;

    list_walk (chore, chores, node)
        chore_look(chore);
}

bool
chore_step(struct chore *chore)
{
    if (chore->folds)
        folds_drop_removed(chore->folds);
    return chore->step && chore->step(chore);
}

bool
chores_step(const struct list *chores)
{
    struct chore *chore;
    bool is_more = false;

    list_walk (chore, chores, node)
        is_more |= chore_step(chore);
    return is_more;
}

void
chores_end(struct list *chores)
{
    while (!list_is_empty(chores)) {
        struct chore *last = list_entry(chores->prev, struct chore, node);

        list_remove(&last->node);
        if (last->folds)
            folds_fini(last->folds);
        if (last->end)
            last->end(last);
    }
}

bool
chore_has_room(struct registry *registry)
{
    struct log_health health;

    log_health(registry->log, &health);
    return health.has_room;
}

_Static_assert((int)TURN_KINDS <= CLIENT_QUEUE_EFFORT,
               "each kind has its queue");

void
turn_init(struct turn *turn, enum turn_kind kind, struct registry *registry,
          bool (*wants)(struct set *set, const struct head *head, void *user),
          void *user)
{
    *turn = (struct turn){
        .kind = kind, .registry = registry, .wants = wants, .user = user};
    client_turns_init(&turn->waiting, kind);
}

void
turn_add(struct turn *turn, struct set *set)
{
    struct turn_place *place = &set->progress->turns[turn->kind];

    place->set = set;
    client_turns_add(&turn->waiting, set_creator(set), &place->node);
}

/* Returns the next waiting set; it waits no more. NULL: none does. */
static struct set *
take_set(struct turn *turn)
{
    struct list *next = client_turns_next(&turn->waiting);

    return next ? list_entry(next, struct turn_place, node)->set : NULL;
}

static bool
add_wanting(struct set *set, const struct head *head, void *user)
{
    struct turn *turn = user;

    if (turn->wants(set, head, turn->user))
        turn_add(turn, set);
    return true;
}

struct set *
turn_next(struct turn *turn)
{
    struct head head;
    struct set *set;

    if (turn->is_due)
        registry_each(turn->registry, add_wanting, turn);
    turn->is_due = false;
    do
        set = take_set(turn);
    while (set &&
           !(log_head(set->log, &head) && turn->wants(set, &head, turn->user)));
    return set;
}

bool
turn_end(struct turn *turn, struct set *set, enum status rc, bool is_more,
         const char *failure, const struct problem *why)
{
    struct turn_place *place = &set->progress->turns[turn->kind];
    bool has_failed = rc && rc != STATUS_GONE && rc != STATUS_STOPPED;

    if (has_failed && !place->has_failed)
        DIAG(DIAG_WARNING, "archive", failure, diag_text("set", set->name),
             diag_text("error", why->text));
    if (has_failed)
        metrics_add(METRIC_FOLDS_FAILED, 1);
    place->has_failed = has_failed;
    if (rc && rc != STATUS_GONE && rc != STATUS_IO) {
        turn->is_due = false;
        while (take_set(turn))
            ;
        return false;
    }
    if (!rc && is_more)
        turn_add(turn, set);
    return true;
}

#include "broker/archive/opened.h"

#include <string.h>

void
opened_init(struct opened *o, void (*close)(void *thing))
{
    memset(o, 0, sizeof(*o));
    o->close = close;
}

static void
drop(struct opened *o, struct opened_place *place)
{
    if (place->set)
        o->close(place->thing);
    memset(place, 0, sizeof(*place));
}

void
opened_fini(struct opened *o)
{
    for (size_t i = 0; i < OPENED_MAX; i++)
        drop(o, &o->places[i]);
}

static struct opened_place *
place_of(struct opened *o, const struct set *set)
{
    for (size_t i = 0; i < OPENED_MAX; i++)
        if (o->places[i].set == set)
            return &o->places[i];
    return NULL;
}

void *
opened_find(struct opened *o, const struct set *set)
{
    struct opened_place *place = place_of(o, set);

    if (!place)
        return NULL;
    place->used = ++o->n_uses;
    return place->thing;
}

void
opened_add(struct opened *o, const struct set *set, void *thing)
{
    struct opened_place *place = &o->places[0];

    for (size_t i = 1; i < OPENED_MAX; i++)
        if (o->places[i].used < place->used)
            place = &o->places[i];
    drop(o, place);
    *place = (struct opened_place){set, thing, ++o->n_uses};
}

void
opened_drop(struct opened *o, const struct set *set)
{
    struct opened_place *place = place_of(o, set);

    if (place)
        drop(o, place);
}

void
opened_drop_removed(struct opened *o)
{
    struct head head;

    for (size_t i = 0; i < OPENED_MAX; i++)
        if (o->places[i].set && !log_head(o->places[i].set->log, &head))
            drop(o, &o->places[i]);
}

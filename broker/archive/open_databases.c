#include "broker/archive/open_databases.h"

#include <string.h>

void
open_databases_init(struct open_databases *o, void (*close)(void *thing))
{
    memset(o, 0, sizeof(*o));
    o->close = close;
}

static void
drop_place(struct open_databases *o, struct open_databases_place *place)
{
    if (place->set)
        o->close(place->thing);
    memset(place, 0, sizeof(*place));
}

void
open_databases_fini(struct open_databases *o)
{
    for (size_t i = 0; i < OPEN_DATABASES_MAX; i++)
        drop_place(o, &o->places[i]);
}

static struct open_databases_place *
place_of(struct open_databases *o, const struct set *set)
{
    for (size_t i = 0; i < OPEN_DATABASES_MAX; i++)
        if (o->places[i].set == set)
            return &o->places[i];
    return NULL;
}

void *
open_databases_find(struct open_databases *o, const struct set *set)
{
    struct open_databases_place *place = place_of(o, set);

    if (!place)
        return NULL;
    place->used = ++o->n_uses;
    return place->thing;
}

void
open_databases_add(struct open_databases *o, const struct set *set, void *thing)
{
    struct open_databases_place *place = &o->places[0];

    for (size_t i = 1; i < OPEN_DATABASES_MAX; i++)
        if (o->places[i].used < place->used)
            place = &o->places[i];
    drop_place(o, place);
    *place = (struct open_databases_place){set, thing, ++o->n_uses};
}

void
open_databases_drop(struct open_databases *o, const struct set *set)
{
    struct open_databases_place *place = place_of(o, set);

    if (place)
        drop_place(o, place);
}

void
open_databases_drop_removed(struct open_databases *o)
{
    struct head head;

    for (size_t i = 0; i < OPEN_DATABASES_MAX; i++)
        if (o->places[i].set && !log_head(o->places[i].set->log, &head))
            drop_place(o, &o->places[i]);
}

#include "broker/push/places.h"

#include <stdlib.h>

void
places_init(struct places *places)
{
    places->service = NULL;
    list_init(&places->all);
    list_init(&places->marked);
    list_init(&places->taken);
    pthread_mutex_init(&places->mutex, NULL);
}

void
places_fini(struct places *places)
{
    pthread_mutex_destroy(&places->mutex);
}

/* On the log thread, under the set's lock. */
static void
on_commit(struct watch *watch)
{
    struct place *p = list_entry(watch, struct place, watch);
    bool is_new;

    pthread_mutex_lock(&p->places->mutex);
    is_new = list_is_empty(&p->marked_node);
    if (is_new)
        list_append(&p->places->marked, &p->marked_node);
    pthread_mutex_unlock(&p->places->mutex);
    if (is_new)
        service_wake(p->places->service);
}

static void
look_at_head(struct place *p)
{
    struct head head;

    log_head(p->set->log, &head);
    p->last = head.last;
    p->is_removed = head.is_removed;
}

static struct place *
find(struct places *places, const struct set *set)
{
    struct list *node, *next;

    list_foreach (node, next, &places->all) {
        struct place *p = list_entry(node, struct place, node);

        if (p->set == set) {
            list_remove(node); /* to the front: found soon again */
            list_prepend(&places->all, node);
            return p;
        }
    }
    return NULL;
}

struct place *
places_enter(struct places *places, struct service *service, struct set *set)
{
    struct place *p = find(places, set);

    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p)
            return NULL;
        places->service = service;
        p->places = places;
        p->set = set;
        p->watch.wake = on_commit;
        list_init(&p->marked_node);
        list_init(&p->waiting);
        list_init(&p->polls);
        list_append(&places->all, &p->node);
        log_watch(set->log, &p->watch);
        look_at_head(p); /* after the watch exists: see log_watch */
    }
    p->n_subscribers++;
    return p;
}

void
places_leave(struct place *p)
{
    struct places *places = p->places;

    if (--p->n_subscribers > 0)
        return;
    log_unwatch(p->set->log, &p->watch); /* no on_commit after this */
    pthread_mutex_lock(&places->mutex);
    list_remove(&p->marked_node);
    pthread_mutex_unlock(&places->mutex);
    for (size_t i = 0; i < TRANSPORTS; i++)
        frame_unref(p->heartbeat[i]);
    list_remove(&p->node);
    free(p);
}

void
places_take(struct places *places)
{
    pthread_mutex_lock(&places->mutex);
    list_move(&places->taken, &places->marked);
    pthread_mutex_unlock(&places->mutex);
}

struct place *
places_next(struct places *places)
{
    struct place *p = NULL;
    struct list *node;

    pthread_mutex_lock(&places->mutex);
    node = list_first(&places->taken);
    if (node) {
        list_remove(node);
        p = list_entry(node, struct place, marked_node);
    }
    pthread_mutex_unlock(&places->mutex);
    if (p)
        look_at_head(p);
    return p;
}

void
places_new_tick(struct places *places)
{
    struct list *node, *next;

    list_foreach (node, next, &places->all) {
        struct place *p = list_entry(node, struct place, node);

        for (size_t i = 0; i < TRANSPORTS; i++) {
            frame_unref(p->heartbeat[i]);
            p->heartbeat[i] = NULL;
        }
    }
}

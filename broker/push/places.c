#include "broker/push/places.h"

#include <stdlib.h>

static void
wake_service(struct watcher *watcher)
{
    service_wake(list_entry(watcher, struct places, watcher)->service);
}

void
places_init(struct places *places, struct shared_messages *messages)
{
    places->messages = messages;
    places->service = NULL;
    list_init(&places->all);
    watcher_init(&places->watcher, wake_service);
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
find_place(struct places *places, const struct set *set)
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
    struct place *p = find_place(places, set);

    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p)
            return NULL;
        places->service = service;
        p->set = set;
        watched_init(&p->watched, &places->watcher);
        list_init(&p->waiting);
        list_init(&p->polls);
        list_append(&places->all, &p->node);
        watched_listen(&p->watched, set->log);
        look_at_head(p);
    }
    p->n_subscribers++;
    return p;
}

static void
drop_heartbeats(struct places *places, struct place *p)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        if (p->heartbeat[i])
            shared_messages_settle(places->messages, p->heartbeat[i]);
        p->heartbeat[i] = NULL;
    }
}

void
places_leave(struct place *p)
{
    if (--p->n_subscribers > 0)
        return;
    drop_heartbeats(list_entry(p->watched.watcher, struct places, watcher), p);
    watched_end(&p->watched);
    list_remove(&p->node);
    free(p);
}

struct place *
places_next(struct places *places)
{
    struct watched_log *watched = watcher_next(&places->watcher);
    struct place *p;

    if (!watched)
        return NULL;
    p = list_entry(watched, struct place, watched);
    watched_clear(watched); /* before the look */
    look_at_head(p);
    return p;
}

void
places_new_tick(struct places *places)
{
    struct list *node, *next;

    list_foreach (node, next, &places->all)
        drop_heartbeats(places, list_entry(node, struct place, node));
}

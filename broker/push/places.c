#include "broker/push/places.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sets/rates.h"
#include "proto/memory.h"

/* Messages */

static bool
look_at_place(const struct reader *r, struct channel *channel, uint64_t *head)
{
    const struct place *p = places_of_reader(r);

    *channel = transports_channel(p->set, r->kind, &p->places->deflater);
    *head = p->last;
    return !p->is_removed;
}

static void
work_on_pool(struct shared_messages *messages, struct job *job)
{
    service_work(list_entry(messages, struct places, readers.messages)->service,
                 job);
}

static const struct reader_calls calls = {
    /* No is_stopping: the service ends when its streams have ended. */
    .shared = {.part = "push", .make = transports_make, .work = work_on_pool},
    .look = look_at_place,
};

/* Places */

static void
wake_service(struct watcher *watcher)
{
    service_wake(list_entry(watcher, struct places, readers.watcher)->service);
}

void
places_init(struct places *places)
{
    readers_init(&places->readers, &calls, SIZE_MAX, wake_service);
    deflater_init(&places->deflater);
    places->service = NULL;
    memset(&places->all, 0, sizeof(places->all));
}

void
places_fini(struct places *places)
{
    readers_fini(&places->readers);
    deflater_fini(&places->deflater);
    map_fini(&places->all);
}

static void
look_at_head(struct place *p)
{
    struct head head;

    log_head(p->set->log, &head);
    p->last = head.last;
    p->is_removed = head.is_removed;
}

/* Fibonacci hashing: sets of equal size would share the low bits of their
 * addresses. No client chooses these. */
static uint64_t
hash_of(const struct set *set)
{
    return ((uint64_t)(uintptr_t)set * 0x9e3779b97f4a7c15u) >> 24;
}

static struct place *
find_place(const struct places *places, const struct set *set)
{
    struct map_node *node = map_find(&places->all, hash_of(set));

    return node ? map_entry(node, struct place, node) : NULL;
}

void
places_enter(struct places *places, struct service *service, struct set *set,
             struct reader *reader, uint64_t after,
             void (*on_ready)(struct reader *))
{
    struct place *p = find_place(places, set);

    if (!p) {
        p = memory_new(1, sizeof(*p));
        /* Once: threads that commit read it to wake the service. */
        if (!places->service)
            places->service = service;
        p->places = places;
        p->set = set;
        watched_channel_init(&p->channel, &places->readers);
        map_add(&places->all, &p->node, hash_of(set));
        watched_listen(&p->channel.watched, set->log);
        look_at_head(p);
    }
    p->n_readers++;
    reader_init(reader, &p->channel, after, on_ready);
}

static void
drop_heartbeats(struct place *p)
{
    for (size_t i = 0; i < SET_TRANSPORTS_MAX; i++) {
        if (p->heartbeat[i])
            shared_messages_settle(&p->places->readers.messages,
                                   p->heartbeat[i]);
        p->heartbeat[i] = NULL;
    }
}

static void
leave_place(struct place *p)
{
    if (--p->n_readers > 0)
        return;
    drop_heartbeats(p);
    watched_end(&p->channel.watched);
    map_remove(&p->places->all, &p->node);
    free(p);
}

void
places_leave(struct reader *reader)
{
    reader_release(reader);
    leave_place(places_of_reader(reader));
}

void
places_count(const struct reader *reader, int n)
{
    atomic_fetch_add_explicit(
        &places_of_reader(reader)->set->subscribers[reader->kind], (unsigned)n,
        memory_order_relaxed);
}

void
places_add_lag(const struct reader *r, struct lag *to)
{
    const struct place *p = places_of_reader(r);
    uint64_t lag = p->last - r->after;

    if (p->last <= reader_start(r))
        return;
    rates_note_lag(registry_rates(p->set->registry), p->set, r->kind, lag);
    to->sum += lag;
    if (lag > to->max)
        to->max = lag;
}

void
places_wake(struct places *places,
            void (*on_removed)(const struct place *place))
{
    struct watcher *watcher = &places->readers.watcher;
    struct watched_log *watched;

    watcher_take(watcher);
    while ((watched = watcher_next(watcher))) {
        struct place *p = list_entry(watched, struct place, channel.watched);

        watched_clear(watched); /* before the look */
        look_at_head(p);
        p->n_readers++; /* keeps it while readers leave it */
        if (p->is_removed)
            on_removed(p);
        watched_channel_wake(&p->channel, UINT_MAX);
        leave_place(p);
    }
}

/* Heartbeats */

struct shared_message *
places_heartbeat(struct reader *r)
{
    struct place *p = places_of_reader(r);
    struct shared_messages *messages = &p->places->readers.messages;
    struct shared_message **shared = &p->heartbeat[r->kind];
    struct shared_wish wish = reader_wish(r);

    if (*shared && ((*shared)->wish.after != r->after ||
                    (*shared)->wish.reached != r->reached)) {
        shared_messages_settle(messages, *shared);
        *shared = NULL;
    }
    if (*shared)
        return *shared;
    wish.channel = transports_channel(p->set, r->kind, &p->places->deflater);
    wish.filter = NULL;
    wish.is_heartbeat = true;
    return shared_messages_make(messages, shared, &wish) ? NULL : *shared;
}

void
places_new_tick(struct places *places)
{
    struct map_node *next;
    struct place *place;

    map_each (place, next, &places->all, node)
        drop_heartbeats(place);
}

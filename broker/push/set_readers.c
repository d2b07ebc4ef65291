#include "broker/push/set_readers.h"

#include "broker/sets/rates.h"

/* Messages */

static bool
look_at_set(const struct reader *r, struct channel *channel, uint64_t *head)
{
    const struct read_set *p = read_set_of(r);

    *channel = transports_channel(p->set, r->kind, &p->all->deflater);
    *head = p->last;
    return !p->is_removed;
}

static void
work_on_pool(struct shared_messages *messages, struct job *job)
{
    service_work(
        list_entry(messages, struct set_readers, readers.messages)->service,
        job);
}

static const struct reader_calls calls = {
    /* No is_stopping: the service ends when its streams have ended. */
    .shared = {.part = "push", .make = transports_make, .work = work_on_pool},
    .look = look_at_set,
};

/* Places */

static void
wake_service(struct watcher *watcher)
{
    service_wake(
        list_entry(watcher, struct set_readers, readers.watcher)->service);
}

void
set_readers_init(struct set_readers *all)
{
    readers_init(&all->readers, &calls, SIZE_MAX, wake_service);
}

void
set_readers_fini(struct set_readers *all)
{
    shared_messages_fini(&all->readers.messages);
    deflater_fini(&all->deflater);
    map_fini(&all->by_set);
}

static void
look_at_head(struct read_set *p)
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

void
set_readers_enter(struct set_readers *all, struct service *service,
                  struct set *set, struct reader *reader, uint64_t after,
                  void (*on_ready)(struct reader *))
{
    struct map_node *node = map_find(&all->by_set, hash_of(set));
    struct read_set *p = node ? map_entry(node, struct read_set, node) : NULL;

    if (!p) {
        p = memory_new(1, sizeof(*p));
        /* Once: threads that commit read it to wake the service. */
        if (!all->service)
            all->service = service;
        p->all = all;
        p->set = set;
        watched_channel_init(&p->channel, &all->readers);
        map_add(&all->by_set, &p->node, hash_of(set));
        watched_listen(&p->channel.watched, set->log);
        look_at_head(p);
    }
    p->n_readers++;
    reader_init(reader, &p->channel, after, on_ready);
}

static void
drop_heartbeats(struct read_set *p)
{
    for (size_t i = 0; i < SET_TRANSPORTS_MAX; i++) {
        if (p->heartbeat[i])
            shared_messages_settle(&p->all->readers.messages, p->heartbeat[i]);
        p->heartbeat[i] = NULL;
    }
}

static void
leave_set(struct read_set *p)
{
    if (--p->n_readers > 0)
        return;
    drop_heartbeats(p);
    watched_end(&p->channel.watched);
    map_remove(&p->all->by_set, &p->node);
    free(p);
}

void
set_readers_leave(struct reader *reader)
{
    reader_release(reader);
    leave_set(read_set_of(reader));
}

void
set_readers_count(const struct reader *reader, int n)
{
    add_relaxed(&read_set_of(reader)->set->subscribers[reader->kind],
                (unsigned)n);
}

void
set_readers_add_lag(const struct reader *r, struct lag *to)
{
    const struct read_set *p = read_set_of(r);
    uint64_t lag = p->last - r->after;

    if (p->last <= reader_start(r))
        return;
    rates_note_lag(p->set->registry->rates, p->set, r->kind, lag);
    to->sum += lag;
    if (lag > to->max)
        to->max = lag;
}

struct read_set *
set_readers_next_marked(struct set_readers *all)
{
    struct watched_log *watched = watcher_next(&all->readers.watcher);
    struct read_set *p;

    if (!watched)
        return NULL;
    p = list_entry(watched, struct read_set, channel.watched);
    watched_clear(watched); /* before the look */
    look_at_head(p);
    p->n_readers++; /* keeps it while readers leave it: set_readers_wake */
    return p;
}

void
set_readers_wake(struct read_set *p)
{
    watched_channel_wake(&p->channel, UINT_MAX);
    leave_set(p);
}

/* Heartbeats */

struct shared_message *
set_readers_heartbeat(struct reader *r)
{
    struct read_set *p = read_set_of(r);
    struct shared_messages *messages = &p->all->readers.messages;
    struct shared_message **shared = &p->heartbeat[r->kind];
    struct shared_wish wish = reader_wish(r);

    if (*shared && ((*shared)->wish.after != r->after ||
                    (*shared)->wish.reached != r->reached)) {
        shared_messages_settle(messages, *shared);
        *shared = NULL;
    }
    if (*shared)
        return *shared;
    wish.channel = transports_channel(p->set, r->kind, &p->all->deflater);
    wish.filter = NULL;
    wish.is_heartbeat = true;
    return shared_messages_make(messages, shared, &wish) ? NULL : *shared;
}

void
set_readers_new_tick(struct set_readers *all)
{
    struct read_set *one;

    map_walk (one, &all->by_set, node)
        drop_heartbeats(one);
}

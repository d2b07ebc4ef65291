#include "broker/log/tail.h"

#include "base/array.h"
#include "broker/log/log.h"

void
tail_init(struct tail *t)
{
    memset(t, 0, sizeof(*t));
    pthread_mutex_init(&t->mutex, NULL);
    list_init(&t->watches);
}

void
tail_fini(struct tail *t)
{
    for (size_t i = 0; i < t->count; i++)
        batch_unref(t->ring[(t->start + i) % t->capacity]);
    free(t->ring);
    pthread_mutex_destroy(&t->mutex);
}

/* Doubles a ring of pointers when it is full; its first element moves to 0. */
static enum status
ring_grow(void ***ring, size_t *capacity, size_t *start, size_t count)
{
    size_t larger = *capacity ? *capacity * 2 : 8;
    void **new;

    if (count < *capacity)
        return STATUS_OK;
    new = memory_room(larger * sizeof(*new));
    if (!new)
        return STATUS_MEMORY;
    for (size_t i = 0; i < count; i++)
        new[i] = (*ring)[(*start + i) % *capacity];
    free(*ring);
    *ring = new;
    *capacity = larger;
    *start = 0;
    return STATUS_OK;
}

/* Takes the oldest batch off a tail. NULL: it has none. The caller holds the
 * mutex of `t`. */
static struct batch *
take_oldest(struct tails *all, struct tail *t)
{
    struct batch *b;

    if (t->count == 0)
        return NULL;
    b = t->ring[t->start];
    t->start = (t->start + 1) % t->capacity;
    t->count--;
    all->bytes -= batch_weight(b);
    return b;
}

void
tail_publish(struct tails *all, struct tail *t, struct batch **batches,
             size_t n, const struct head *head)
{
    struct watch *watch;

    pthread_mutex_lock(&t->mutex);
    t->head = *head;
    for (size_t i = 0; i < n; i++) {
        if (ring_grow((void ***)&t->ring, &t->capacity, &t->start, t->count) ||
            ring_grow((void ***)&all->queue, &all->capacity, &all->start,
                      all->count)) {
            /* The batches of a ring are consecutive: without this one, the
             * earlier ones must go, too. Its places in the queue are skipped
             * when they come. */
            while (t->count > 0)
                batch_unref(take_oldest(all, t));
            batch_unref(batches[i]);
            continue;
        }
        t->ring[(t->start + t->count++) % t->capacity] = batches[i];
        all->queue[(all->start + all->count++) % all->capacity] = t;
        all->bytes += batch_weight(batches[i]);
    }
    list_walk (watch, &t->watches, node)
        watch->wake(watch);
    pthread_mutex_unlock(&t->mutex);
    /* Keeps the promise of `max`: the oldest batch of any set goes first. */
    while (all->count > 0 &&
           all->bytes + load_relaxed(&all->forms) > all->max) {
        struct batch *b;
        bool is_filed;

        t = all->queue[all->start];
        all->start = (all->start + 1) % all->capacity;
        all->count--;
        pthread_mutex_lock(&t->mutex);
        b = take_oldest(all, t);
        is_filed = b && b->list <= t->head.filed;
        pthread_mutex_unlock(&t->mutex);
        if (b && !is_filed) /* the file of its list needs it once more */
            batch_remember(b);
        batch_unref(b);
    }
}

void
tail_empty(struct tails *all, struct tail *t)
{
    pthread_mutex_lock(&t->mutex);
    while (t->count > 0)
        batch_unref(
            take_oldest(all, t)); /* its places in the queue are skipped */
    free(t->ring);
    t->ring = NULL;
    t->capacity = t->start = 0;
    pthread_mutex_unlock(&t->mutex);
}

void
tail_head(struct tail *t, struct head *head)
{
    pthread_mutex_lock(&t->mutex);
    *head = t->head;
    pthread_mutex_unlock(&t->mutex);
}

/* Batch `n` of the ring. The mutex is held. */
static struct batch *
batch_at(const struct tail *t, size_t n)
{
    return t->ring[(t->start + n) % t->capacity];
}

/* True if the ring has entry `after` + 1. The mutex is held. */
static bool
has_next(const struct tail *t, uint64_t after)
{
    return after < t->head.last && t->count > 0 &&
           batch_at(t, 0)->first <= after + 1;
}

/* Returns the number of the batch with `seq`, which the ring has: the first one
 * that ends at or after it. The mutex is held. */
static size_t
find_number(const struct tail *t, uint64_t seq)
{
    return FIRST_FALSE(i, 0, t->count - 1, batch_at(t, i)->last < seq);
}

struct batch *
tail_find(struct tail *t, uint64_t after, uint64_t *last)
{
    struct batch *found = NULL;

    pthread_mutex_lock(&t->mutex);
    *last = t->head.last;
    if (has_next(t, after))
        found = batch_ref(batch_at(t, find_number(t, after + 1)));
    pthread_mutex_unlock(&t->mutex);
    return found;
}

void
tail_view(struct tail *t, uint64_t after, uint64_t upto, size_t max_bytes,
          struct log_view *view)
{
    size_t bytes = 0;

    view->n = 0;
    pthread_mutex_lock(&t->mutex);
    view->head = t->head;
    for (size_t i = after < upto && has_next(t, after)
                        ? find_number(t, after + 1)
                        : t->count;
         i < t->count; i++) {
        struct batch *b = batch_at(t, i);

        if (b->first > upto || view->n == LOG_VIEW_BATCHES ||
            (view->n > 0 && bytes >= max_bytes))
            break;
        view->batches[view->n++] = batch_ref(b);
        bytes +=
            b->first > after ? b->size : batch_slice(b, after, b->last).size;
    }
    pthread_mutex_unlock(&t->mutex);
}

struct batch *
tail_find_time(struct tail *t, int64_t us)
{
    struct batch *found = NULL;
    size_t n;

    pthread_mutex_lock(&t->mutex);
    n = FIRST_FALSE(i, 0, t->count, batch_at(t, i)->last_us <= us);
    if (n < t->count && batch_at(t, n)->before_us <= us)
        found = batch_ref(batch_at(t, n));
    pthread_mutex_unlock(&t->mutex);
    return found;
}

#include "broker/log/batch_cache.h"

#include <pthread.h>

#include "base/list.h"

/* Small sets have small batches, many of them: they are looked for by set. Not
 * base/map: a batch is found by a range of entries, so that all batches of a
 * set share a hash, and the oldest must go without a search. */
#define BUCKETS 1024

/* A batch in the cache. */
struct kept {
    struct list node;        /* most recently used first */
    struct list bucket_node; /* with others of the same set */
    struct log_set *set;
    struct batch *batch;
};

/* A read under way. On the stack of the thread that reads. */
struct flight {
    struct list node;
    struct log_set *set;
    uint64_t after;
};

struct batch_cache {
    pthread_mutex_t mutex;
    pthread_cond_t landed; /* some flight has ended */
    struct list kept;
    struct list buckets[BUCKETS]; /* the same, by set */
    struct list flights;
    size_t bytes, max;
    const atomic_size_t *forms;
    batch_cache_load_fn *load;
    void *user;
};

static struct list *
bucket_of(struct batch_cache *cache, const struct log_set *set)
{
    /* The middle bits of the address: structs lie some hundred bytes apart. */
    return &cache->buckets[((uintptr_t)set >> 6) % BUCKETS];
}

static size_t
weight_of(const struct kept *kept)
{
    return batch_weight(kept->batch) + sizeof(*kept);
}

struct batch_cache *
batch_cache_new(size_t max_bytes, const atomic_size_t *forms,
                batch_cache_load_fn *load, void *user)
{
    struct batch_cache *cache = memory_new(1, sizeof(*cache));

    pthread_mutex_init(&cache->mutex, NULL);
    pthread_cond_init(&cache->landed, NULL);
    list_init(&cache->kept);
    list_init(&cache->flights);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&cache->buckets[i]);
    cache->max = max_bytes;
    cache->forms = forms;
    cache->load = load;
    cache->user = user;
    return cache;
}

static void
drop_batch(struct batch_cache *cache, struct kept *kept)
{
    list_remove(&kept->node);
    list_remove(&kept->bucket_node);
    cache->bytes -= weight_of(kept);
    batch_unref(kept->batch);
    free(kept);
}

void
batch_cache_free(struct batch_cache *cache)
{
    struct kept *kept;

    if (!cache)
        return;
    list_until_empty (kept, &cache->kept, node)
        drop_batch(cache, kept);
    pthread_cond_destroy(&cache->landed);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

/* Finds a batch in the cache, or else a read of that entry under way: then
 * *is_flying. The mutex is held. */
static struct batch *
find_batch(struct batch_cache *cache, const struct log_set *set, uint64_t after,
           bool *is_flying)
{
    struct kept *kept;
    struct flight *flight;

    list_walk (kept, bucket_of(cache, set), bucket_node) {
        if (kept->set == set && kept->batch->first <= after + 1 &&
            after < kept->batch->last) {
            list_remove(&kept->node);
            list_prepend(&cache->kept, &kept->node);
            return batch_ref(kept->batch);
        }
    }
    *is_flying = false;
    list_walk (flight, &cache->flights, node)
        *is_flying |= flight->set == set && flight->after == after;
    return NULL;
}

enum status
batch_cache_read(struct batch_cache *cache, struct log_set *set, uint64_t after,
                 struct batch **batch, struct problem *why)
{
    struct flight flight = {.set = set, .after = after};
    struct kept *kept;
    bool is_flying;
    enum status rc;

    pthread_mutex_lock(&cache->mutex);
    while (!(*batch = find_batch(cache, set, after, &is_flying)) && is_flying)
        pthread_cond_wait(&cache->landed, &cache->mutex);
    if (*batch) {
        pthread_mutex_unlock(&cache->mutex);
        return STATUS_OK;
    }
    list_append(&cache->flights, &flight.node);
    pthread_mutex_unlock(&cache->mutex);

    rc = cache->load(cache->user, set, after, batch, why);

    pthread_mutex_lock(&cache->mutex);
    list_remove(&flight.node);
    if (!rc && *batch) {
        kept = memory_room(sizeof(*kept));
        *kept = (struct kept){.set = set, .batch = batch_ref(*batch)};
        list_prepend(&cache->kept, &kept->node);
        list_prepend(bucket_of(cache, set), &kept->bucket_node);
        cache->bytes += weight_of(kept);
        while (cache->bytes + load_relaxed(cache->forms) > cache->max &&
               cache->kept.prev != &kept->node)
            drop_batch(cache, list_entry(cache->kept.prev, struct kept, node));
    }
    pthread_cond_broadcast(&cache->landed);
    pthread_mutex_unlock(&cache->mutex);
    return rc;
}

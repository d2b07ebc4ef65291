#include "broker/hub/callback_table.h"

#include <stdlib.h>

#include <openssl/rand.h>

#include "broker/hub/topic.h"
#include "proto/buf.h"
#include "proto/websub.h"

/* Normal escapes may be longer: an unreserved character never is, "%c3" is as
 * long as "%C3", and an empty path gets one byte. */
#define COMPARABLE_MAX (3 * WEBSUB_URL_MAX + 64)

/* About three pairs per bucket at the limit. */
#define PAIRS_PER_BUCKET 3

enum status
callback_table_init(struct callback_table *pairs, size_t max)
{
    pairs->n_buckets = 64;
    while (pairs->n_buckets < max / PAIRS_PER_BUCKET)
        pairs->n_buckets *= 2;
    pairs->buckets = malloc(pairs->n_buckets * sizeof(*pairs->buckets));
    if (!pairs->buckets)
        return STATUS_MEMORY;
    for (size_t i = 0; i < pairs->n_buckets; i++)
        list_init(&pairs->buckets[i]);
    if (RAND_bytes((unsigned char *)&pairs->seed, sizeof(pairs->seed)) != 1)
        pairs->seed = (uintptr_t)pairs->buckets;
    return STATUS_OK;
}

void
callback_table_fini(struct callback_table *pairs)
{
    free(pairs->buckets);
    pairs->buckets = NULL;
}

/* FNV-1a from a secret start. A client that found colliding callbacks all the
 * same would have to confirm each of them. */
static uint64_t
hash_of(const struct callback_table *pairs, const struct topic *topic,
        struct slice callback)
{
    uint64_t hash = pairs->seed ^ (uintptr_t)topic;

    for (size_t i = 0; i < callback.size; i++)
        hash = (hash ^ (unsigned char)callback.data[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

static struct list *
bucket_of(const struct callback_table *pairs, uint64_t hash)
{
    return &pairs->buckets[hash & (pairs->n_buckets - 1)];
}

static bool
is_same(const struct pair *pair, uint64_t hash, const struct topic *topic,
        struct slice callback)
{
    return pair->hash == hash && pair->topic == topic &&
           slice_equal(pair->callback, callback);
}

enum status
callback_table_enter(struct callback_table *pairs, struct pair *pair,
                     const struct topic *topic, struct slice callback,
                     struct problem *why)
{
    struct buf text;
    char *copy = NULL;

    buf_init(&text, COMPARABLE_MAX);
    websub_comparable(&text, callback);
    if (!text.failed)
        copy = slice_dup(buf_slice(&text));
    if (!copy) {
        buf_fini(&text);
        return problem_memory(why);
    }
    pair->topic = topic;
    pair->callback = (struct slice){copy, text.size};
    pair->hash = hash_of(pairs, topic, pair->callback);
    list_append(bucket_of(pairs, pair->hash), &pair->node);
    buf_fini(&text);
    return STATUS_OK;
}

void
callback_table_leave(struct pair *pair)
{
    if (!pair->node.next)
        return;
    list_remove(&pair->node);
    free((char *)pair->callback.data);
    pair->callback = (struct slice){NULL, 0};
}

static struct pair *
first_from(const struct callback_table *pairs, struct list *node, uint64_t hash,
           const struct topic *topic, struct slice callback)
{
    const struct list *bucket = bucket_of(pairs, hash);

    for (; node != bucket; node = node->next) {
        struct pair *pair = list_entry(node, struct pair, node);

        if (is_same(pair, hash, topic, callback))
            return pair;
    }
    return NULL;
}

struct pair *
callback_table_find(const struct callback_table *pairs,
                    const struct topic *topic, struct slice callback)
{
    struct pair *pair = NULL;
    struct buf text;

    buf_init(&text, COMPARABLE_MAX);
    websub_comparable(&text, callback);
    if (!text.failed) {
        uint64_t hash = hash_of(pairs, topic, buf_slice(&text));

        pair = first_from(pairs, bucket_of(pairs, hash)->next, hash, topic,
                          buf_slice(&text));
    }
    buf_fini(&text);
    return pair;
}

struct pair *
callback_table_same(const struct callback_table *pairs,
                    const struct pair *behind)
{
    return first_from(pairs, behind->node.next, behind->hash, behind->topic,
                      behind->callback);
}

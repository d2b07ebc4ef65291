#include "broker/hub/callback_table.h"

#include <stdlib.h>

#include "broker/hub/topic.h"
#include "proto/buf.h"
#include "proto/http/websub.h"

/* Normal escapes may be longer: an unreserved character never is, "%c3" is as
 * long as "%C3", and an empty path gets one byte. */
#define COMPARABLE_MAX (3 * WEBSUB_URL_MAX + 64)

void
callback_table_fini(struct callback_table *pairs)
{
    map_fini(&pairs->map);
}

/* A client that found colliding callbacks all the same would have to confirm
 * each of them. */
static uint64_t
hash_of(struct callback_table *pairs, const struct topic *topic,
        struct slice callback)
{
    return map_hash(&pairs->map, callback) ^ (uintptr_t)topic;
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
    pair->callback = (struct slice){copy, text.size};
    buf_fini(&text);
    if (!copy)
        return problem_memory(why);
    pair->topic = topic;
    map_add(&pairs->map, &pair->node, hash_of(pairs, topic, pair->callback));
    return STATUS_OK;
}

void
callback_table_leave(struct callback_table *pairs, struct pair *pair)
{
    if (!pair->callback.data)
        return;
    map_remove(&pairs->map, &pair->node);
    free((char *)pair->callback.data);
    pair->callback = (struct slice){NULL, 0};
}

static struct pair *
first_from(struct map_node *node, const struct topic *topic,
           struct slice callback)
{
    for (; node; node = map_same(node)) {
        struct pair *pair = map_entry(node, struct pair, node);

        if (pair->topic == topic && slice_equal(pair->callback, callback))
            return pair;
    }
    return NULL;
}

struct pair *
callback_table_find(struct callback_table *pairs, const struct topic *topic,
                    struct slice callback)
{
    struct pair *pair = NULL;
    struct buf text;

    buf_init(&text, COMPARABLE_MAX);
    websub_comparable(&text, callback);
    callback = buf_slice(&text);
    if (!text.failed)
        pair =
            first_from(map_find(&pairs->map, hash_of(pairs, topic, callback)),
                       topic, callback);
    buf_fini(&text);
    return pair;
}

struct pair *
callback_table_same(const struct pair *pair)
{
    return first_from(map_same(&pair->node), pair->topic, pair->callback);
}

#include "broker/hub/callback_table.h"

#include <stdlib.h>

#include "broker/hub/topic.h"
#include "proto/http/websub.h"

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

void
callback_table_enter(struct callback_table *pairs, struct pair *pair,
                     const struct topic *topic, struct slice callback)
{
    pair->callback = slice_of(websub_comparable_dup(callback));
    pair->topic = topic;
    map_add(&pairs->map, &pair->node, hash_of(pairs, topic, pair->callback));
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
    struct websub_comparable comparable;

    callback = slice_of(websub_comparable(&comparable, callback));
    return first_from(map_find(&pairs->map, hash_of(pairs, topic, callback)),
                      topic, callback);
}

struct pair *
callback_table_same(const struct pair *pair)
{
    return first_from(map_same(&pair->node), pair->topic, pair->callback);
}

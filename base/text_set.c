#include "base/text_set.h"

#include <stdlib.h>

#include "proto/memory.h"

struct text {
    struct map_node node;
    size_t size;
    char bytes[];
};

static struct text *
find_text(const struct text_set *set, struct slice text, uint64_t hash)
{
    struct text *t;

    map_each_same (t, &set->map, hash, node) {
        if (slice_equal(text, (struct slice){t->bytes, t->size}))
            return t;
    }
    return NULL;
}

enum status
text_set_add(struct text_set *set, struct slice text, bool *is_new)
{
    uint64_t hash = map_hash(&set->map, text);
    struct text *t;

    *is_new = !find_text(set, text, hash);
    if (!*is_new)
        return STATUS_OK;
    t = memory_room(sizeof(*t) + text.size);
    if (!t)
        return STATUS_MEMORY;
    t->size = text.size;
    if (text.size > 0)
        memcpy(t->bytes, text.data, text.size);
    map_add(&set->map, &t->node, hash);
    return STATUS_OK;
}

bool
text_set_has(const struct text_set *set, struct slice text)
{
    /* A map with nodes has its secret: nothing is changed here. */
    return set->map.n > 0 &&
           find_text(set, text, map_hash((struct map *)&set->map, text));
}

void
text_set_remove(struct text_set *set, struct slice text)
{
    struct text *t = find_text(set, text, map_hash(&set->map, text));

    if (t)
        map_remove(&set->map, &t->node);
    free(t);
}

void
text_set_fini(struct text_set *set)
{
    struct map_node *after;
    struct text *text;

    map_each (text, after, &set->map, node)
        free(text);
    map_fini(&set->map);
}

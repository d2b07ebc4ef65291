#include "broker/hub/name_count.h"

#include <stdlib.h>
#include <string.h>

#include "proto/http/websub.h"
#include "proto/memory.h"

/* Room for the host of a callback (websub_host). */
#define CALLBACK_HOST_MAX (WEBSUB_URL_MAX + 64)

struct name_count {
    struct map_node node;
    unsigned n;
    size_t size;
    char name[];
};

static struct name_count *
find_count(struct map *counts, struct slice name, uint64_t hash)
{
    struct name_count *count;

    map_each_same (count, counts, hash, node) {
        if (slice_equal((struct slice){count->name, count->size}, name))
            return count;
    }
    return NULL;
}

unsigned
name_count_of(struct map *counts, struct slice name)
{
    const struct name_count *count =
        find_count(counts, name, map_hash(counts, name));

    return count ? count->n : 0;
}

struct name_count *
name_count_add(struct map *counts, struct slice name)
{
    uint64_t hash = map_hash(counts, name);
    struct name_count *count = find_count(counts, name, hash);

    if (!count) {
        count = memory_new(1, sizeof(*count) + name.size);
        count->size = name.size;
        if (name.size > 0)
            memcpy(count->name, name.data, name.size);
        map_add(counts, &count->node, hash);
    }
    count->n++;
    return count;
}

static struct slice
host_of(char to[CALLBACK_HOST_MAX], struct slice callback)
{
    struct buf host;

    buf_init_fixed(&host, to, CALLBACK_HOST_MAX);
    websub_host(&host, callback);
    return buf_slice(&host);
}

unsigned
host_count_of(struct map *counts, struct slice callback)
{
    char host[CALLBACK_HOST_MAX];

    return name_count_of(counts, host_of(host, callback));
}

struct name_count *
host_count_add(struct map *counts, struct slice callback)
{
    char host[CALLBACK_HOST_MAX];

    return name_count_add(counts, host_of(host, callback));
}

void
name_count_take(struct map *counts, struct name_count *count)
{
    if (!count || --count->n > 0)
        return;
    map_remove(counts, &count->node);
    free(count);
}

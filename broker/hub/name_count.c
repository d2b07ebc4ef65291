#include "broker/hub/name_count.h"

#include <stdlib.h>
#include <string.h>

#include "broker/base/client_limits.h"
#include "proto/http/websub.h"
#include "proto/memory.h"

/* Room for a client, and the host of a callback (websub_host). */
#define NAME_MAX_SIZE (CLIENT_STORED_SIZE + WEBSUB_URL_MAX + 64)

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

static struct name_count *
add_count(struct map *counts, struct slice name)
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

static void
take_count(struct map *counts, struct name_count *count)
{
    if (!count || --count->n > 0)
        return;
    map_remove(counts, &count->node);
    free(count);
}

/* The client, which begins with no letter of a host, and the host. */
static struct slice
name_of(char to[NAME_MAX_SIZE], const struct client *client,
        struct slice callback)
{
    char stored[CLIENT_STORED_SIZE];
    struct buf name;

    buf_init_fixed(&name, to, NAME_MAX_SIZE);
    buf_add_slice(&name, client_store(client, stored));
    websub_host(&name, callback);
    return buf_slice(&name);
}

unsigned
host_count_of(struct map *counts, const struct client *client,
              struct slice callback)
{
    char to[NAME_MAX_SIZE];
    struct slice name = name_of(to, client, callback);
    const struct name_count *count =
        find_count(counts, name, map_hash(counts, name));

    return count ? count->n : 0;
}

void
host_count_add(struct host_count *place, struct map *counts,
               const struct client *client, struct slice callback)
{
    char name[NAME_MAX_SIZE];

    place->of_all = add_count(counts, name_of(name, NULL, callback));
    place->of_client = add_count(counts, name_of(name, client, callback));
}

void
host_count_take(struct host_count *place, struct map *counts)
{
    take_count(counts, place->of_all);
    take_count(counts, place->of_client);
    *place = (struct host_count){NULL, NULL};
}

#include "broker/hub/owner_places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http/websub.h"
#include "proto/memory.h"

/* Room for a client, and the host of a callback (websub_host). */
#define NAME_SIZE (CLIENT_STORED_SIZE + WEBSUB_URL_MAX + 64)

struct host_count {
    struct map_node node;
    unsigned n;
    size_t size;
    char name[];
};

/* Finds the count of a host, of all owners (NULL) or of one; NULL: there is
 * none, and none is made. The kind of a client begins no host. */
static struct host_count *
count_of(struct map *hosts, const struct client *client, struct slice callback,
         bool makes)
{
    char memory[NAME_SIZE], stored[CLIENT_STORED_SIZE];
    struct host_count *count;
    struct buf name;
    uint64_t hash;

    buf_init_fixed(&name, memory, sizeof(memory));
    buf_add_slice(&name, client_store(client, stored));
    websub_host(&name, callback);
    hash = map_hash(hosts, buf_slice(&name));
    map_each_same (count, hosts, hash, node) {
        if (slice_equal((struct slice){count->name, count->size},
                        buf_slice(&name)))
            return count;
    }
    if (!makes)
        return NULL;
    count = memory_new(1, sizeof(*count) + name.size);
    count->size = name.size;
    memcpy(count->name, name.data, name.size);
    map_add(hosts, &count->node, hash);
    return count;
}

enum status
owner_places_check(struct owner_places *places, struct client *client,
                   struct slice callback, uint64_t of_all, uint64_t of_owner,
                   const char *what, struct problem *why)
{
    const struct host_count *all =
        count_of(&places->hosts, NULL, callback, false);
    const struct host_count *own =
        count_of(&places->hosts, client, callback, false);
    struct holding place;
    enum status rc;

    if (own && own->n >= of_owner)
        return problem(why, STATUS_LIMITED,
                       "you have as many %s for callbacks of this host as one "
                       "client may have: %" PRIu64,
                       what, of_owner);
    if (all && all->n >= of_all)
        return problem(why, STATUS_LIMITED,
                       "there are as many %s for callbacks of this host as "
                       "there may be: %" PRIu64,
                       what, of_all);
    holding_init(&place, places->clients, client, places->kind);
    rc = holding_add(&place, 1, why);
    holding_end(&place);
    return rc;
}

void
owner_place_take(struct owner_place *place, struct owner_places *places,
                 struct client *client, struct slice callback)
{
    holding_restore(&place->holding, places->clients, client, places->kind, 1);
    if (callback.size == 0)
        return;
    place->of_all = count_of(&places->hosts, NULL, callback, true);
    place->of_owner = count_of(&places->hosts, client, callback, true);
    place->of_all->n++;
    place->of_owner->n++;
}

static void
leave_host(struct map *hosts, struct host_count *count)
{
    if (!count || --count->n > 0)
        return;
    map_remove(hosts, &count->node);
    free(count);
}

void
owner_place_leave(struct owner_place *place, struct owner_places *places)
{
    leave_host(&places->hosts, place->of_all);
    leave_host(&places->hosts, place->of_owner);
    holding_end(&place->holding);
    *place = (struct owner_place){.of_all = NULL};
}

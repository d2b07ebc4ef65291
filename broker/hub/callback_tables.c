#include "broker/hub/callback_tables.h"

#include "proto/http/websub.h"

/* Keys */

void
callback_tables_init(struct callback_tables *t, struct clients *clients,
                     enum client_kind kind)
{
    *t = (struct callback_tables){.clients = clients, .kind = kind};
    list_init(&t->all);
}

void
callback_tables_fini(struct callback_tables *t)
{
    map_fini(&t->pairs);
    map_fini(&t->hosts);
    map_fini(&t->ids);
}

/* A client that found colliding callbacks all the same would have to confirm
 * each of them. */
static uint64_t
hash_of(struct callback_tables *t, const void *topic, struct slice callback)
{
    return map_hash(&t->pairs, callback) ^ (uintptr_t)topic;
}

void
callback_tables_enter(struct callback_tables *t, struct callback_key *key,
                      uint64_t id, const void *topic, struct list *of_topic,
                      struct slice callback)
{
    key->id = id;
    key->topic = topic;
    key->callback = slice_of(websub_comparable_dup(callback));
    map_add(&t->pairs, &key->node, hash_of(t, topic, key->callback));
    map_add(&t->ids, &key->by_id, id); /* no outsider chooses it */
    list_append(&t->all, &key->of_all_topics);
    list_append(of_topic, &key->of_topic);
}

static uint64_t
id_at(const struct list *of_topic)
{
    return list_entry(of_topic, struct callback_key, of_topic)->id;
}

void
callback_tables_order(struct list *of_topic)
{
    struct list *at = of_topic->next, *node = of_topic->next, *next;

    while (node != of_topic &&
           (node->prev == of_topic || id_at(node) > id_at(node->prev)))
        node = node->next;
    for (; node != of_topic; node = next) {
        next = node->next;
        while (at != node && id_at(at) < id_at(node))
            at = at->next;
        if (at == node)
            return; /* the rest is behind all */

        list_put(at, node); /* before `at` */
    }
}

void
callback_tables_leave(struct callback_tables *t, struct callback_key *key)
{
    callback_tables_leave_place(t, key);
    list_remove(&key->of_topic);
    list_remove(&key->of_all_topics);
    map_remove(&t->ids, &key->by_id);
    map_remove(&t->pairs, &key->node);
    free((char *)key->callback.data);
}

struct callback_key *
callback_tables_by_id(const struct callback_tables *t, uint64_t id)
{
    struct callback_key *key;

    map_each_same (key, &t->ids, id, by_id) {
        if (key->id == id)
            return key;
    }
    return NULL;
}

struct list *
callback_tables_behind(const struct callback_tables *t, struct list *of_topic,
                       const void *topic, uint64_t id)
{
    struct callback_key *key = callback_tables_by_id(t, id);
    struct list *node = key && key->topic == topic ? &key->of_topic : of_topic;

    do
        node = node->next;
    while (node != of_topic &&
           list_entry(node, struct callback_key, of_topic)->id <= id);
    return node;
}

static struct callback_key *
first_from(struct map_node *node, const void *topic, struct slice callback)
{
    for (; node; node = map_same(node)) {
        struct callback_key *key = map_entry(node, struct callback_key, node);

        if (key->topic == topic && slice_equal(key->callback, callback))
            return key;
    }
    return NULL;
}

struct callback_key *
callback_tables_find(struct callback_tables *t, const void *topic,
                     struct slice callback)
{
    struct websub_comparable comparable;

    callback = slice_of(websub_comparable(&comparable, callback));
    return first_from(map_find(&t->pairs, hash_of(t, topic, callback)), topic,
                      callback);
}

struct callback_key *
callback_tables_same(const struct callback_key *key)
{
    return first_from(map_same(&key->node), key->topic, key->callback);
}

/* Places */

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
callback_tables_check(struct callback_tables *t, struct client *client,
                      struct slice callback, uint64_t of_all, uint64_t of_owner,
                      const char *what, struct problem *why)
{
    const struct host_count *all = count_of(&t->hosts, NULL, callback, false);
    const struct host_count *own = count_of(&t->hosts, client, callback, false);
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
    holding_init(&place, t->clients, client, t->kind);
    rc = holding_add(&place, 1, why);
    holding_end(&place);
    return rc;
}

void
callback_tables_take_place(struct callback_tables *t, struct callback_key *key,
                           struct client *client, struct slice callback)
{
    holding_restore(&key->holding, t->clients, client, t->kind, 1);
    if (callback.size == 0)
        return;
    key->of_all = count_of(&t->hosts, NULL, callback, true);
    key->of_owner = count_of(&t->hosts, client, callback, true);
    key->of_all->n++;
    key->of_owner->n++;
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
callback_tables_leave_place(struct callback_tables *t, struct callback_key *key)
{
    leave_host(&t->hosts, key->of_all);
    leave_host(&t->hosts, key->of_owner);
    holding_end(&key->holding);
    key->of_all = key->of_owner = NULL;
    key->holding = (struct holding){.client = NULL};
}

#include "broker/sets/filters.h"

#include <stdlib.h>
#include <string.h>

/* No class that is among them gets so far, and no form has a key of it. */
#define FILTER_ALONE (UINT64_MAX / 2)

struct filters_client {
    struct list node;
    unsigned n; /* classes that it has made */
    char name[FILTERS_CLIENT_MAX + 1];
};

void
filters_init(struct filters *filters)
{
    pthread_mutex_init(&filters->mutex, NULL);
    list_init(&filters->all);
    list_init(&filters->clients);
    filters->n = 0;
    filters->last_id = 0;
}

void
filters_fini(struct filters *filters)
{
    pthread_mutex_destroy(&filters->mutex);
}

/* The mutex is held. */
static struct filter_class *
find(struct filters *filters, const struct filter *filter)
{
    struct list *node, *next;

    list_foreach (node, next, &filters->all) {
        struct filter_class *class =
            list_entry(node, struct filter_class, node);

        if (slice_equal(filter_text(&class->filter), filter_text(filter)))
            return class;
    }
    return NULL;
}

/* Returns the client of that name, or adds it. NULL: no memory. The mutex is
 * held. */
static struct filters_client *
find_client(struct filters *filters, struct slice name)
{
    struct list *node, *next;
    struct filters_client *client;

    if (name.size > FILTERS_CLIENT_MAX)
        name.size = FILTERS_CLIENT_MAX;
    list_foreach (node, next, &filters->clients) {
        client = list_entry(node, struct filters_client, node);
        if (slice_is(name, client->name))
            return client;
    }
    client = calloc(1, sizeof(*client));
    if (!client)
        return NULL;
    if (name.size > 0)
        memcpy(client->name, name.data, name.size);
    list_append(&filters->clients, &client->node);
    return client;
}

static void
leave_client(struct filters_client *client)
{
    if (client->n > 0)
        return;
    list_remove(&client->node);
    free(client);
}

/* Lists the class if the client has room. The mutex is held. */
static bool
list_class(struct filters *filters, struct filter_class *class,
           struct slice name)
{
    struct filters_client *client = find_client(filters, name);

    if (!client)
        return false;
    if (client->n >= FILTERS_MAX - filters->n) {
        leave_client(client);
        return false;
    }
    class->client = client;
    client->n++;
    list_append(&filters->all, &class->node);
    filters->n++;
    return true;
}

/* Makes a class, and lists it if the client has room. If not: NULL, unless
 * may_be_alone. The mutex is held. */
static struct filter_class *
add(struct filters *filters, const struct filter *filter, struct slice client,
    bool may_be_alone)
{
    struct filter_class *class = malloc(sizeof(*class));

    if (!class)
        return NULL;
    filter_class_alone(class);
    list_init(&class->node);
    atomic_init(&class->readers, 0);
    class->filters = filters;
    class->id = ++filters->last_id; /* shared messages go by it */
    class->filter = *filter;
    if (list_class(filters, class, client) || may_be_alone)
        return class;
    free(class);
    return NULL;
}

static bool
enter(struct filters *filters, const struct filter *filter, struct slice client,
      bool may_be_alone, struct filter_class **result)
{
    struct filter_class *class = NULL;

    *result = NULL;
    if (filter_text(filter).size == 0)
        return true;
    pthread_mutex_lock(&filters->mutex);
    class = find(filters, filter);
    if (!class)
        class = add(filters, filter, client, may_be_alone);
    if (class) {
        class->owners++;
        atomic_fetch_add_explicit(&class->readers, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&filters->mutex);
    *result = class;
    return class != NULL;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct slice client, struct filter_class **class,
              struct problem *why)
{
    if (enter(filters, filter, client, false, class))
        return STATUS_OK;
    return problem(why, STATUS_BUSY,
                   "you read with as many filters as there is room for: try "
                   "again later, or pull");
}

enum status
filters_enter_anyhow(struct filters *filters, const struct filter *filter,
                     struct slice client, struct filter_class **class,
                     struct problem *why)
{
    if (enter(filters, filter, client, true, class))
        return STATUS_OK;
    return problem(why, STATUS_MEMORY, "the broker has no memory left");
}

void
filter_class_alone(struct filter_class *class)
{
    memset(class, 0, sizeof(*class));
    class->id = FILTER_ALONE;
    atomic_init(&class->readers, 1);
}

struct filter_class *
filter_class_ref(struct filter_class *class)
{
    if (!class)
        return NULL;
    pthread_mutex_lock(&class->filters->mutex);
    class->owners++;
    pthread_mutex_unlock(&class->filters->mutex);
    return class;
}

void
filter_class_unref(struct filter_class *class)
{
    struct filters *filters = class ? class->filters : NULL;

    if (!class)
        return;
    /* Found and entered is it under the same mutex: who finds it, owns it
     * before it can be freed here. */
    pthread_mutex_lock(&filters->mutex);
    if (--class->owners == 0) {
        if (class->client) {
            list_remove(&class->node);
            filters->n--;
            class->client->n--;
            leave_client(class->client);
        }
    } else {
        class = NULL;
    }
    pthread_mutex_unlock(&filters->mutex);
    free(class);
}

void
filters_leave(struct filter_class *class)
{
    if (!class)
        return;
    atomic_fetch_sub_explicit(&class->readers, 1, memory_order_relaxed);
    filter_class_unref(class);
}

#include "broker/sets/filters.h"

#include <stdlib.h>
#include <string.h>

/* No class that is among them gets so far, and no form has a key of it. */
#define FILTER_ALONE (UINT64_MAX / 2)

void
filters_init(struct filters *filters, struct clients *clients)
{
    pthread_mutex_init(&filters->mutex, NULL);
    list_init(&filters->all);
    filters->clients = clients;
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

/* Makes a class, and lists it if the client has room. If
 * not, fails, unless may_be_alone. The mutex is held. */
static enum status
add(struct filters *filters, const struct filter *filter, struct client *client,
    bool may_be_alone, struct filter_class **result, struct problem *why)
{
    struct filter_class *class = malloc(sizeof(*class));
    enum status rc = STATUS_OK;

    if (!class)
        return problem(why, STATUS_BUSY, "the broker has no memory left");
    filter_class_alone(class);
    list_init(&class->node);
    atomic_init(&class->readers, 0);
    class->filters = filters;
    class->id = ++filters->last_id; /* shared messages go by it */
    class->filter = *filter;
    holding_init(&class->holding, filters->clients, client, CLIENT_FILTERS);
    if (!may_be_alone)
        rc = holding_add(&class->holding, 1, why);
    else
        (void)!holding_try(&class->holding, 1);
    if (rc) {
        holding_end(&class->holding);
        free(class);
        return rc;
    }
    if (class->holding.n > 0) {
        list_append(&filters->all, &class->node);
        filters->n++;
    }
    *result = class;
    return STATUS_OK;
}

static enum status
enter(struct filters *filters, const struct filter *filter,
      struct client *client, bool may_be_alone, struct filter_class **result,
      struct problem *why)
{
    struct filter_class *class = NULL;
    enum status rc = STATUS_OK;

    *result = NULL;
    if (filter_text(filter).size == 0)
        return STATUS_OK;
    pthread_mutex_lock(&filters->mutex);
    class = find(filters, filter);
    if (!class)
        rc = add(filters, filter, client, may_be_alone, &class, why);
    if (class) {
        class->owners++;
        atomic_fetch_add_explicit(&class->readers, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&filters->mutex);
    *result = class;
    return rc;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct client *client, struct filter_class **class,
              struct problem *why)
{
    return enter(filters, filter, client, false, class, why);
}

enum status
filters_enter_anyhow(struct filters *filters, const struct filter *filter,
                     struct client *client, struct filter_class **class,
                     struct problem *why)
{
    enum status rc = enter(filters, filter, client, true, class, why);

    return rc ? STATUS_MEMORY : STATUS_OK;
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
        if (class->holding.n > 0) {
            list_remove(&class->node);
            filters->n--;
        }
        holding_end(&class->holding);
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

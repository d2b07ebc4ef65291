#include "broker/sets/filters.h"

#include <stdlib.h>
#include <string.h>

/* No class that is among them gets so far, and no form has a key of it. */
#define FILTER_ALONE (UINT64_MAX / 2)

void
filters_init(struct filters *filters)
{
    pthread_mutex_init(&filters->mutex, NULL);
    list_init(&filters->all);
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

/* A new class, if there is room for it. The mutex is held. */
static struct filter_class *
add(struct filters *filters, const struct filter *filter)
{
    struct filter_class *class =
        filters->n < FILTERS_MAX ? calloc(1, sizeof(*class)) : NULL;

    if (!class)
        return NULL;
    class->filters = filters;
    class->id = ++filters->last_id;
    atomic_init(&class->readers, 0);
    class->filter = *filter;
    list_append(&filters->all, &class->node);
    filters->n++;
    return class;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct filter_class **result, struct problem *why)
{
    struct filter_class *class;

    *result = NULL;
    if (filter_text(filter).size == 0)
        return STATUS_OK;
    pthread_mutex_lock(&filters->mutex);
    class = find(filters, filter);
    if (!class)
        class = add(filters, filter);
    if (class) {
        class->owners++;
        atomic_fetch_add_explicit(&class->readers, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&filters->mutex);
    if (!class)
        return problem(why, STATUS_BUSY,
                       "as many filters are in use as may be, %d", FILTERS_MAX);
    *result = class;
    return STATUS_OK;
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
        list_remove(&class->node);
        filters->n--;
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

#include "broker/sets/filters.h"

#include <stdlib.h>
#include <string.h>

/* The id of a class that filter_class_alone makes. Other ids count up from 1
 * and never reach it; twice the id and one more still fit (selection.c). */
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
find_class(struct filters *filters, const struct filter *filter)
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

/* Frees a class that is not listed. */
static void
discard_class(struct filter_class *class)
{
    holding_end(&class->holding);
    free(class);
}

/* Makes a class without readers, and takes a place for it from `client`. If the
 * client has no room: fails, or returns a class without a place, which must not
 * be listed, if may_be_alone. The mutex is not held: a refusal may be logged.
 */
static enum status
make_class(struct filters *filters, const struct filter *filter,
           struct client *client, bool may_be_alone,
           struct filter_class **result, struct problem *why)
{
    struct filter_class *class = malloc(sizeof(*class));
    enum status rc = STATUS_OK;

    if (!class)
        return problem_memory(why);
    filter_class_alone(class);
    list_init(&class->node);
    atomic_init(&class->readers, 0);
    class->filters = filters;
    class->filter = *filter;
    holding_init(&class->holding, filters->clients, client, CLIENT_FILTERS);
    if (!may_be_alone)
        rc = holding_add(&class->holding, 1, why);
    else
        (void)!holding_try(&class->holding, 1);
    if (rc)
        discard_class(class);
    else
        *result = class;
    return rc;
}

/* Finds the class of the filter, or lists `made` (NULL: none) as that, and
 * counts one more reader. Returns NULL if there is neither. */
static struct filter_class *
join_class(struct filters *filters, const struct filter *filter,
           struct filter_class *made)
{
    struct filter_class *class;

    pthread_mutex_lock(&filters->mutex);
    class = find_class(filters, filter);
    if (!class && made) {
        class = made;
        class->id = ++filters->last_id; /* shared messages go by it */
        if (class->holding.n > 0) {
            list_append(&filters->all, &class->node);
            filters->n++;
        }
    }
    if (class) {
        class->owners++;
        atomic_fetch_add_explicit(&class->readers, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&filters->mutex);
    return class;
}

static enum status
enter_class(struct filters *filters, const struct filter *filter,
            struct client *client, bool may_be_alone,
            struct filter_class **result, struct problem *why)
{
    struct filter_class *made = NULL;
    enum status rc;

    *result = NULL;
    if (filter_text(filter).size == 0)
        return STATUS_OK;
    *result = join_class(filters, filter, NULL);
    if (*result)
        return STATUS_OK;
    rc = make_class(filters, filter, client, may_be_alone, &made, why);
    if (rc)
        return rc;
    *result = join_class(filters, filter, made);
    if (*result != made) /* another reader was faster */
        discard_class(made);
    return STATUS_OK;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct client *client, struct filter_class **class,
              struct problem *why)
{
    return enter_class(filters, filter, client, false, class, why);
}

enum status
filters_enter_anyhow(struct filters *filters, const struct filter *filter,
                     struct client *client, struct filter_class **class,
                     struct problem *why)
{
    enum status rc = enter_class(filters, filter, client, true, class, why);

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
    /* join() finds a class and becomes an owner of it under the same mutex, so
     * that nobody finds one that has no owner any more. */
    pthread_mutex_lock(&filters->mutex);
    if (--class->owners > 0) {
        class = NULL;

    } else if (class->holding.n > 0) {
        list_remove(&class->node);
        filters->n--;
    }

    pthread_mutex_unlock(&filters->mutex);
    if (class)
        discard_class(class);
}

void
filters_leave(struct filter_class *class)
{
    if (!class)
        return;
    atomic_fetch_sub_explicit(&class->readers, 1, memory_order_relaxed);
    filter_class_unref(class);
}

#include "broker/sets/filters.h"

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
    struct list *next;
    struct filter_class *class;

    list_each (class, next, &filters->all, node) {
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

/* Makes a class without readers, which has no place of `client` yet. */
static struct filter_class *
make_class(struct filters *filters, const struct filter *filter,
           struct client *client)
{
    struct filter_class *class = memory_room(sizeof(*class));

    filter_class_alone(class);
    list_init(&class->node);
    atomic_init(&class->readers, 0);
    class->filters = filters;
    class->filter = *filter;
    holding_init(&class->holding, filters->clients, client, CLIENT_FILTERS);
    return class;
}

/* Finds the class of the filter, or lists `made` (NULL: none) as that, unless
 * it has no place, and counts one more reader. Returns NULL if there is
 * neither. */
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

/* True if the filter needs no new class: *class is set. */
static bool
needs_none(struct filters *filters, const struct filter *filter,
           struct filter_class **class)
{
    bool is_needless = filter_text(filter).size == 0;

    *class = is_needless ? NULL : join_class(filters, filter, NULL);
    return is_needless || *class;
}

static struct filter_class *
enter_class(struct filters *filters, struct filter_class *made)
{
    struct filter_class *class = join_class(filters, &made->filter, made);

    if (class != made) /* another reader was faster */
        discard_class(made);
    return class;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct client *client, struct filter_class **class,
              struct problem *why)
{
    struct filter_class *made;
    enum status rc;

    if (needs_none(filters, filter, class))
        return STATUS_OK;
    made = make_class(filters, filter, client);
    rc = holding_add(&made->holding, 1, why);
    if (rc)
        discard_class(made);
    else
        *class = enter_class(filters, made);
    return rc;
}

struct filter_class *
filters_enter_anyhow(struct filters *filters, const struct filter *filter,
                     struct client *client)
{
    struct filter_class *class;

    if (needs_none(filters, filter, &class))
        return class;
    class = make_class(filters, filter, client);
    (void)!holding_try(&class->holding, 1);
    return enter_class(filters, class);
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

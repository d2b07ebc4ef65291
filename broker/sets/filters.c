#include "broker/sets/filters.h"

/* The id of a class that filter_class_alone makes. Other ids count up from 1
 * and never reach it; twice the id and one more still fit (selection.c). */
#define FILTER_ALONE (UINT64_MAX / 2)

void
filters_init(struct filters *filters, struct clients *clients)
{
    *filters = (struct filters){.clients = clients};
    pthread_mutex_init(&filters->mutex, NULL);
    list_init(&filters->all);
}

/* Frees a class that is not listed. */
static void
discard_class(struct filter_class *class)
{
    holding_end(&class->holding);
    free(class);
}

/* Finds the class of the filter, or lists `made` (NULL: none) as that, unless
 * it has no place, and counts one more reader. Returns NULL if there is
 * neither. */
static struct filter_class *
join_class(struct filters *filters, const struct filter *filter,
           struct filter_class *made)
{
    struct filter_class *class = NULL, *other;

    pthread_mutex_lock(&filters->mutex);
    list_walk (other, &filters->all, node) {
        if (slice_equal(filter_text(&other->filter), filter_text(filter))) {
            class = other;
            break;
        }
    }
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
        add_relaxed(&class->readers, 1);
    }
    pthread_mutex_unlock(&filters->mutex);
    return class;
}

enum status
filters_enter(struct filters *filters, const struct filter *filter,
              struct client *client, bool anyhow, struct filter_class **class,
              struct problem *why)
{
    bool is_needless = filter_text(filter).size == 0;
    struct filter_class *made;
    enum status rc = STATUS_OK;

    *class = is_needless ? NULL : join_class(filters, filter, NULL);
    if (is_needless || *class)
        return STATUS_OK;
    made = memory_room(sizeof(*made));
    filter_class_alone(made);
    list_init(&made->node);
    atomic_init(&made->readers, 0);
    made->filters = filters;
    made->filter = *filter;
    holding_init(&made->holding, filters->clients, client, CLIENT_FILTERS);
    if (anyhow)
        (void)!holding_try(&made->holding, 1);
    else
        rc = holding_add(&made->holding, 1, why);
    if (!rc)
        *class = join_class(filters, filter, made);
    if (*class != made) /* refused, or another reader was faster */
        discard_class(made);
    return rc;
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
    subtract_relaxed(&class->readers, 1);
    filter_class_unref(class);
}

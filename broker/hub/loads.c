#include "broker/hub/loads.h"

#include <stdlib.h>
#include <string.h>

#include "broker/base/diag.h"
#include "broker/hub/inside.h"

/* A body being made, or about to be. */
struct load {
    struct job job;
    struct list node;
    struct list waiters;
    struct loads *loads;
    struct topic topic; /* a copy: the topic may be freed meanwhile, but not its
                           set (registry.h) */
    struct topic_wish wish;
    struct filter_class *filter; /* a reference to the wish's */
    struct shared_body *body;
    enum status status;
    uint64_t last;
    struct problem why;
};

void
loads_init(struct loads *loads, struct hub *hub, const struct bodies *bodies,
           void (*on_load)(struct shared_body *, enum status, uint64_t,
                           struct list *, void *),
           void *user)
{
    loads->hub = hub;
    loads->bodies = bodies;
    list_init(&loads->queued[false]);
    list_init(&loads->queued[true]);
    list_init(&loads->running);
    loads->n_running = 0;
    loads->on_load = on_load;
    loads->user = user;
}

static void
load_free(struct load *l)
{
    list_remove(&l->node);
    filter_class_unref(l->filter);
    free(l);
}

void
loads_fini(struct loads *loads)
{
    for (int i = 0; i < 2; i++)
        while (!list_is_empty(&loads->queued[i]))
            load_free(list_entry(loads->queued[i].next, struct load, node));
}

/* On a worker. */
static void
work(struct job *job)
{
    struct load *l = list_entry(job, struct load, job);

    l->status =
        shared_body_make(&l->body, &l->topic, &l->wish, &l->last, &l->why);
}

/* Finds the next load to begin; NULL: none, or no room. Frees loads that no
 * delivery waits for any more. */
static struct load *
next_load(struct loads *loads)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct list *node, *next;

        list_foreach (node, next, &loads->queued[is_suspect]) {
            struct load *l = list_entry(node, struct load, node);

            if (list_is_empty(&l->waiters))
                load_free(l);
            else if (bodies_have_room(loads->bodies, NULL, is_suspect))
                return l;
            else
                break;
        }
    }
    return NULL;
}

/* Begins at the front each time: a load may end at once, if there is no memory
 * for a job, and change the list. */
void
loads_go_on(struct loads *loads)
{
    struct load *l;

    if (hub_is_stopping(loads->hub))
        return; /* begin none that the end would wait for */
    while (loads->n_running < LOADS_MAX && (l = next_load(loads))) {
        list_remove(&l->node);
        list_append(&loads->running, &l->node);
        loads->n_running++;
        caller_work(loads->hub->caller, &l->job);
    }
}

static void
done(struct job *job)
{
    struct load *l = list_entry(job, struct load, job);
    struct loads *loads = l->loads;

    list_remove(&l->node);
    loads->n_running--;
    if (l->status && l->status != STATUS_GONE && l->status != STATUS_NOT_FOUND)
        DIAG(DIAG_ERROR, "hub", "cannot read for subscriptions",
             diag_text("set", l->topic.set->name),
             diag_text("error", l->why.text));
    loads->on_load(l->body, l->status, l->last, &l->waiters, loads->user);
    load_free(l);
    loads_go_on(loads);
}

static struct load *
find(const struct list *loads, const struct topic *topic,
     const struct topic_wish *wish)
{
    struct list *node, *next;

    list_foreach (node, next, loads) {
        struct load *l = list_entry(node, struct load, node);

        if (l->topic.set == topic->set && l->topic.kind == topic->kind &&
            l->wish.after == wish->after && l->wish.upto == wish->upto &&
            l->wish.filter == wish->filter &&
            l->wish.reached == wish->reached &&
            l->wish.is_plain == wish->is_plain)
            return l;
    }
    return NULL;
}

static struct load *
load_new(struct loads *loads, const struct topic *topic,
         const struct topic_wish *wish, bool is_suspect)
{
    struct load *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->loads = loads;
    l->topic.hub = topic->hub;
    l->topic.kind = topic->kind;
    l->topic.set = topic->set;
    memcpy(l->topic.epoch, topic->epoch, sizeof(l->topic.epoch));
    l->topic.is_ending = topic->is_ending;
    l->topic.end = topic->end;
    l->wish = *wish;
    l->filter =
        filter_class_ref((struct filter_class *)(uintptr_t)wish->filter);
    l->job.work = work;
    l->job.done = done;
    list_init(&l->waiters);
    list_append(&loads->queued[is_suspect], &l->node);
    return l;
}

enum status
loads_begin(struct loads *loads, const struct topic *topic,
            const struct topic_wish *wish, bool is_suspect, struct list *waiter)
{
    struct load *l = find(&loads->running, topic, wish);

    if (!l)
        l = find(&loads->queued[false], topic, wish);
    if (!l && (l = find(&loads->queued[true], topic, wish)) && !is_suspect) {
        list_remove(&l->node); /* a healthy one waits for it, too */
        list_append(&loads->queued[false], &l->node);
    }
    if (!l)
        l = load_new(loads, topic, wish, is_suspect);
    if (!l)
        return STATUS_MEMORY;
    list_append(&l->waiters, waiter);
    loads_go_on(loads);
    return STATUS_OK;
}

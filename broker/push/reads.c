#include "broker/push/reads.h"

#include <stdlib.h>

#include "broker/base/diag.h"

/* A frame being made, or about to be. */
struct read {
    struct job job;
    struct list node;
    struct list waiters;
    struct reads *reads;
    struct service *service;
    struct frame_wish wish;
    struct frame *frame;
    enum status status;
    struct problem why;
};

void
reads_init(struct reads *reads,
           void (*on_read)(struct frame *, enum status, struct list *, void *),
           void *user)
{
    list_init(&reads->queued);
    list_init(&reads->running);
    reads->n_running = 0;
    reads->on_read = on_read;
    reads->user = user;
}

/* On a worker. */
static void
work(struct job *job)
{
    struct read *r = list_entry(job, struct read, job);
    struct deflater deflater;

    deflater_init(&deflater);
    r->status = frame_make(&r->frame, &r->wish, LOG_DISK, &deflater, &r->why);
    deflater_fini(&deflater);
}

/* Begins the reads that may run. Begins at the front each time: a read may end
 * at once, if there is no memory for a job, and change the list. */
static void
start(struct reads *reads)
{
    struct list *node;

    while (reads->n_running < READS_MAX &&
           (node = list_first(&reads->queued))) {
        struct read *r = list_entry(node, struct read, node);

        list_remove(node);
        if (list_is_empty(&r->waiters)) { /* all waiters have gone */
            filter_class_unref(r->wish.filter);
            free(r);
            continue;
        }
        list_append(&reads->running, node);
        reads->n_running++;
        service_work(r->service, &r->job);
    }
}

static void
done(struct job *job)
{
    struct read *r = list_entry(job, struct read, job);
    struct reads *reads = r->reads;

    list_remove(&r->node);
    reads->n_running--;
    if (r->status && r->status != STATUS_GONE)
        DIAG(DIAG_ERROR, "push", "cannot read for subscribers",
             diag_text("set", r->wish.set->name),
             diag_text("error", r->why.text));
    reads->on_read(r->frame, r->status, &r->waiters, reads->user);
    frame_unref(r->frame);
    filter_class_unref(r->wish.filter);
    free(r);
    start(reads);
}

static struct read *
find(const struct list *reads, const struct frame_wish *wish)
{
    struct list *node, *next;

    list_foreach (node, next, reads) {
        struct read *r = list_entry(node, struct read, node);

        if (r->wish.set == wish->set && r->wish.transport == wish->transport &&
            r->wish.after == wish->after && r->wish.upto == wish->upto &&
            r->wish.filter == wish->filter &&
            r->wish.reached == wish->reached &&
            r->wish.is_heartbeat == wish->is_heartbeat &&
            r->wish.has_since == wish->has_since &&
            r->wish.since_us == wish->since_us)
            return r;
    }
    return NULL;
}

bool
reads_has(const struct reads *reads, const struct frame_wish *wish)
{
    return find(&reads->running, wish) || find(&reads->queued, wish);
}

enum status
reads_begin(struct reads *reads, struct service *service,
            const struct frame_wish *wish, struct list *waiter)
{
    struct read *r = find(&reads->running, wish);

    if (!r)
        r = find(&reads->queued, wish);
    if (!r) {
        r = calloc(1, sizeof(*r));
        if (!r)
            return STATUS_MEMORY;
        r->reads = reads;
        r->service = service;
        r->wish = *wish;
        filter_class_ref(wish->filter); /* all waiters may go */
        r->job.work = work;
        r->job.done = done;
        list_init(&r->waiters);
        list_append(&reads->queued, &r->node);
    }
    list_append(&r->waiters, waiter);
    start(reads);
    return STATUS_OK;
}

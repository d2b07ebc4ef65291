#include "broker/archive/orders.h"

#include <string.h>

#include "base/clock.h"

void
orders_init(struct orders *o, struct thread *thread)
{
    memset(o, 0, sizeof(*o));
    o->thread = thread;
    pthread_mutex_init(&o->mutex, NULL);
    list_init(&o->submitted);
    list_init(&o->waiting);
}

enum status
orders_submit(struct orders *o, struct renewal_order *order)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&o->mutex);
    if (o->is_ended) {
        rc = STATUS_STOPPED;
    } else {
        list_append(&o->submitted, &order->node);
        thread_wake(o->thread); /* here: it cannot have ended yet */
    }
    pthread_mutex_unlock(&o->mutex);
    return rc;
}

bool
orders_take(struct orders *o)
{
    struct list *node;
    bool is_any = false;

    pthread_mutex_lock(&o->mutex);
    while ((node = list_first(&o->submitted))) {
        list_remove(node);
        list_append(&o->waiting, node);
        is_any = true;
    }
    pthread_mutex_unlock(&o->mutex);
    return is_any;
}

static void
end_order(struct renewal_order *order, enum status rc,
          const struct problem *why)
{
    list_remove(&order->node);
    order->status = rc;
    if (why)
        order->why = *why;
    order->done(order);
}

void
orders_answer(struct orders *o)
{
    int64_t now_us = clock_steady_us();
    struct list *node, *next;
    struct problem why = {""};
    struct head head;

    list_foreach (node, next, &o->waiting) {
        struct renewal_order *order =
            list_entry(node, struct renewal_order, node);

        if (!log_head(order->set->log, &head)) {
            problem_set(&why, "the set %s was removed", order->set->name);
            end_order(order, STATUS_GONE, &why);
            continue;
        }
        order->generation = head.generations[order->kind].current;
        if (order->generation.number > 0 &&
            order->generation.seq >= order->wanted)
            end_order(order, STATUS_OK, NULL);
        else if (now_us >= order->until_us)
            end_order(order, STATUS_AGAIN, NULL);
    }
}

void
orders_refuse(struct orders *o, const struct set *set,
              enum generation_kind kind, enum status rc, uint64_t missing,
              const struct problem *why)
{
    struct list *node, *next;

    list_foreach (node, next, &o->waiting) {
        struct renewal_order *order =
            list_entry(node, struct renewal_order, node);

        if (order->set != set || order->kind != kind)
            continue;
        order->missing = missing;
        end_order(order, rc, why);
    }
}

void
orders_end(struct orders *o)
{
    const struct problem why = {"the broker is ending"};
    struct list *node, *next;

    pthread_mutex_lock(&o->mutex);
    o->is_ended = true;
    pthread_mutex_unlock(&o->mutex);
    orders_take(o);
    list_foreach (node, next, &o->waiting)
        end_order(list_entry(node, struct renewal_order, node), STATUS_STOPPED,
                  &why);
}

struct renewal_order *
orders_next(const struct orders *o, const struct renewal_order *order)
{
    struct list *node = order ? order->node.next : o->waiting.next;

    return node == &o->waiting ? NULL
                               : list_entry(node, struct renewal_order, node);
}

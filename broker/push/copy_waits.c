#include "broker/push/copy_waits.h"

#include "base/clock.h"

void
copy_waits_init(struct copy_waits *waits, struct log *log)
{
    waits->log = log;
    list_init(&waits->all);
    waits->is_ending = false;
    atomic_init(&waits->service, NULL);
}

bool
copy_waits_begin(struct copy_waits *waits, struct service *service,
                 struct copy_wait *wait)
{
    if (waits->is_ending)
        return false;
    wait->since_us = clock_steady_us();
    list_init(&wait->node);
    list_append(&waits->all, &wait->node);
    atomic_store_explicit(&waits->service, service, memory_order_release);
    /* A look that begins now, or later, ends after the store: it wakes. */
    log_ask_journal(waits->log);
    return true;
}

void
copy_waits_cancel(struct copy_wait *wait)
{
    list_remove(&wait->node);
}

void
copy_waits_wake(struct copy_waits *waits)
{
    struct service *service =
        atomic_load_explicit(&waits->service, memory_order_acquire);

    if (service)
        service_wake(service);
}

static void
resume_first(struct copy_waits *waits, bool is_certain)
{
    struct copy_wait *wait =
        list_entry(waits->all.next, struct copy_wait, node);

    list_remove(&wait->node);
    wait->resume(wait, is_certain);
}

void
copy_waits_go_on(struct copy_waits *waits)
{
    int64_t now_us = clock_steady_us();

    while (!list_is_empty(&waits->all)) {
        const struct copy_wait *first =
            list_entry(waits->all.next, struct copy_wait, node);
        bool is_certain = log_is_certain(waits->log, first->since_us);

        if (!is_certain && now_us - first->since_us < COPY_WAIT_US)
            return;
        resume_first(waits, is_certain);
    }
    atomic_store_explicit(&waits->service, NULL, memory_order_release);
}

void
copy_waits_end(struct copy_waits *waits)
{
    waits->is_ending = true;
    while (!list_is_empty(&waits->all))
        resume_first(waits, false);
}

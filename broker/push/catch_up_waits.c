#include "broker/push/catch_up_waits.h"

#include "base/clock.h"

void
catch_up_waits_init(struct catch_up_waits *waits, struct log *log)
{
    waits->log = log;
    list_init(&waits->all);
    waits->is_ending = false;
    atomic_init(&waits->service, NULL);
}

bool
catch_up_waits_begin(struct catch_up_waits *waits, struct service *service,
                     struct catch_up_wait *wait)
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
catch_up_waits_wake(struct catch_up_waits *waits)
{
    struct service *service =
        atomic_load_explicit(&waits->service, memory_order_acquire);

    if (service)
        service_wake(service);
}

void
catch_up_waits_go_on(struct catch_up_waits *waits)
{
    int64_t now_us = clock_steady_us();
    struct catch_up_wait *wait;

    list_until_empty (wait, &waits->all, node) {
        bool is_certain = log_is_certain(waits->log, wait->since_us);

        if (!is_certain && now_us - wait->since_us < CATCH_UP_WAIT_US)
            return;
        list_remove(&wait->node);
        wait->resume(wait, is_certain);
    }
    atomic_store_explicit(&waits->service, NULL, memory_order_release);
}

void
catch_up_waits_end(struct catch_up_waits *waits)
{
    struct catch_up_wait *wait;

    waits->is_ending = true;
    list_drain (wait, &waits->all, node)
        wait->resume(wait, false);
}

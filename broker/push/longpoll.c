#include "broker/push/longpoll.h"

void
polls_init(struct polls *polls)
{
    for (size_t i = 0; i < POLLS_SLOTS; i++)
        list_init(&polls->slots[i]);
    list_init(&polls->due);
}

static void
set_due(struct poll *poll)
{
    reader_release(&poll->reader);
    list_put(&poll->polls->due, &poll->timed);
}

/* News: the set was removed, or it has more, unless the request is ahead. */
static void
on_news(struct reader *reader)
{
    if (reader_rest(reader) != READER_HEAD)
        set_due(list_entry(reader, struct poll, reader));
}

/* Gives the request back to its owner; NULL: its client has gone. */
static void
resume_poll(struct poll *poll, struct request *rq)
{
    poll->polls->n--;
    list_remove(&poll->timed);
    set_readers_leave(&poll->reader);
    if (rq)
        rq->user = NULL;
    poll->resume(poll, rq);
}

static void
on_gone(struct request *rq)
{
    resume_poll(rq->user, NULL);
}

static const struct request_handlers handlers = {.on_gone = on_gone};

bool
polls_wait(struct polls *polls, struct set_readers *set_readers,
           struct request *rq, struct poll *poll, const struct poll_wish *wish)
{
    struct service *service = rq->service;
    int64_t now_us = clock_steady_us(), slot;

    if (polls->is_ending)
        return false;
    set_readers_enter(set_readers, service, wish->set, &poll->reader,
                      wish->after, on_news);
    poll->polls = polls;
    poll->request = rq;
    poll->resume = wish->resume;
    if (polls->n++ == 0) {
        polls->slot = now_us / POLLS_SLOT_US;
        service_wake_later(service, POLLS_SLOT_US);
    }
    slot = (now_us + wish->wait_us) / POLLS_SLOT_US;
    list_append(&polls->slots[slot % POLLS_SLOTS], &poll->timed);
    rq->user = poll;
    rq->handlers = &handlers;

    /* There was a commit since the handler looked: the thread has seen it, or
     * its mark is set. */
    if (reader_rest(&poll->reader) != READER_HEAD) {
        set_due(poll);
        service_wake(service);
    }
    return true;
}

void
polls_go_on(struct polls *polls, struct service *service)
{
    int64_t end_us = clock_steady_us() + POLLS_TURN_US;
    int64_t now = clock_steady_us() / POLLS_SLOT_US; /* a slot that is not over
                                                        yet */
    struct poll *poll;
    int n = 0;

    if (!polls->n)
        return;
    /* Makes requests due whose time is over. If the service has slept longer
     * than the ring is long, this looks at each slot once. */
    if (now - polls->slot > POLLS_SLOTS)
        polls->slot = now - POLLS_SLOTS;
    for (; polls->slot < now; polls->slot++) {
        list_until_empty (poll, &polls->slots[polls->slot % POLLS_SLOTS], timed)
            set_due(poll);
    }
    list_until_empty (poll, &polls->due, timed) {
        resume_poll(poll, poll->request);
        if (++n == POLLS_AT_ONCE || clock_steady_us() >= end_us)
            break;
    }
    if (!list_is_empty(&polls->due))
        service_wake(service);
    else if (polls->n)
        service_wake_later(service, POLLS_SLOT_US);
}

void
polls_end(struct polls *polls, struct service *service)
{
    polls->is_ending = true;
    for (size_t i = 0; i < POLLS_SLOTS; i++) {
        struct poll *poll;

        list_walk (poll, &polls->slots[i], timed)
            set_due(poll);
    }
    polls_go_on(polls, service);
}

/* Waits for this broker's copy */

void
catch_up_waits_init(struct catch_up_waits *waits, struct log *log)
{
    waits->log = log;
    list_init(&waits->all);
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

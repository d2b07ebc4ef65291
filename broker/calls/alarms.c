/*
 * Alarms form a pairing heap whose links are in the alarms themselves. Setting
 * one takes no memory, so it cannot fail, and takes constant time. Clearing one
 * takes, on average, a logarithm of their number.
 *
 * `child` is the first alarm below, `next` the next beside it; `prev` the one
 * before it, or for the first the one above.
 */
#include "base/clock.h"
#include "broker/calls/call_transport.h"

/* Alarms per call of the timer; then the loop looks at its sockets. */
#define RINGS_AT_ONCE 1024

/* Joins two heaps without siblings. Either may be NULL. */
static struct alarm *
meld(struct alarm *a, struct alarm *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->at_us < a->at_us) {
        struct alarm *earlier = b;

        b = a;
        a = earlier;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next)
        b->next->prev = b;
    a->child = b;
    return a;
}

/* Takes the first one out of the row `*row`. */
static struct alarm *
take(struct alarm **row)
{
    struct alarm *alarm = *row;

    if (alarm) {
        *row = alarm->next;
        alarm->next = alarm->prev = NULL;
    }
    return alarm;
}

/* Makes one heap of a row: by twos from the left, then from the right. */
static struct alarm *
meld_row(struct alarm *row)
{
    struct alarm *pairs = NULL, *all = NULL, *a = NULL;

    while ((a = take(&row))) {
        a = meld(a, take(&row));
        a->next = pairs;
        pairs = a;
    }
    while ((a = take(&pairs)))
        all = meld(all, a);
    return all;
}

static void
drop(struct alarms *alarms, struct alarm *alarm)
{
    struct alarm *below = meld_row(alarm->child);

    if (alarm == alarms->first) {
        alarms->first = below;
    } else {
        if (alarm->prev->child == alarm)
            alarm->prev->child = alarm->next;
        else
            alarm->prev->next = alarm->next;
        if (alarm->next)
            alarm->next->prev = alarm->prev;
        alarms->first = meld(alarms->first, below);
    }
    alarm->child = alarm->next = alarm->prev = NULL;
    alarm->is_set = false;
}

static void on_timer(uv_timer_t *timer);

/* Sets the timer. It may ring early, never late: a cleared alarm leaves it
 * unchanged. While alarms ring it waits: libuv runs a timer that is due again
 * at once, before anything else. */
static void
arm(struct alarms *alarms)
{
    int64_t at_us = alarms->first ? alarms->first->at_us : 0, wait_us;

    if (!alarms->first || alarms->is_ringing ||
        (uv_is_active((uv_handle_t *)&alarms->timer) &&
         alarms->due_us <= at_us))
        return;
    alarms->due_us = at_us;
    wait_us = at_us - clock_steady_us();
    uv_timer_start(&alarms->timer, on_timer,
                   wait_us > 1000 ? (uint64_t)(wait_us + 999) / 1000 : 1, 0);
}

static void
on_timer(uv_timer_t *timer)
{
    struct alarms *alarms = timer->data;
    int64_t now_us = clock_steady_us();

    alarms->is_ringing = true;
    for (unsigned i = 0;
         i < RINGS_AT_ONCE && alarms->first && alarms->first->at_us <= now_us;
         i++) {
        struct alarm *alarm = alarms->first;

        drop(alarms, alarm);
        alarm->ring(alarm); /* which may free it */
    }
    alarms->is_ringing = false;
    arm(alarms);
}

void
caller_set_alarm(struct caller *caller, struct alarm *alarm, int64_t at_us)
{
    struct alarms *alarms = &caller->alarms;

    if (alarm->is_set)
        drop(alarms, alarm);
    alarm->at_us = at_us;
    alarm->is_set = true;
    alarms->first = meld(alarms->first, alarm);
    if (!caller->is_cut)
        arm(alarms);
}

void
caller_clear_alarm(struct caller *caller, struct alarm *alarm)
{
    if (alarm->is_set)
        drop(&caller->alarms, alarm);
}

void
alarms_init(struct caller *caller)
{
    uv_timer_init(&caller->loop, &caller->alarms.timer);
    caller->alarms.timer.data = &caller->alarms;
}

void
alarms_fini(struct caller *caller)
{
    uv_timer_stop(&caller->alarms.timer);
}

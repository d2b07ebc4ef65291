#include "base/alarms.h"

/* Joins two heaps without siblings. Either may be NULL. */
static struct alarm *
join_heaps(struct alarm *a, struct alarm *b)
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
take_first(struct alarm **row)
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

    while ((a = take_first(&row))) {
        a = join_heaps(a, take_first(&row));
        a->next = pairs;
        pairs = a;
    }
    while ((a = take_first(&pairs)))
        all = join_heaps(all, a);
    return all;
}

void
alarms_clear(struct alarms *alarms, struct alarm *alarm)
{
    struct alarm *below = NULL;

    if (!alarm->is_set)
        return;
    below = meld_row(alarm->child);
    if (alarm == alarms->first) {
        alarms->first = below;
    } else {
        if (alarm->prev->child == alarm)
            alarm->prev->child = alarm->next;
        else
            alarm->prev->next = alarm->next;
        if (alarm->next)
            alarm->next->prev = alarm->prev;
        alarms->first = join_heaps(alarms->first, below);
    }
    alarm->child = alarm->next = alarm->prev = NULL;
    alarm->is_set = false;
}

void
alarms_set(struct alarms *alarms, struct alarm *alarm, int64_t at_us)
{
    alarms_clear(alarms, alarm);
    alarm->at_us = at_us;
    alarm->is_set = true;
    alarms->first = join_heaps(alarms->first, alarm);
}

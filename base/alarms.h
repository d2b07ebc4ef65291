/*
 * alarms.h - alarms in the order of their time: a pairing heap whose links are
 * in the alarms themselves. Setting one takes no memory, so it cannot fail, and
 * takes constant time. Clearing one takes, on average, a logarithm of their
 * number: tens of thousands may be set at once.
 */
#ifndef BASE_ALARMS_H
#define BASE_ALARMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A member of its owner's struct; all zero before its first use. */
struct alarm {
    void (*ring)(struct alarm *alarm); /* may set it again, or free it */

    /* Readable. */
    int64_t at_us; /* steady clock, if is_set */
    bool is_set;

    /* The heap's. */
    struct alarm *child; /* the first alarm below */
    struct alarm *next;  /* the next one beside */
    struct alarm *prev;  /* the one before; of the first, the one above */
};

/* All zero: none is set. */
struct alarms {
    struct alarm *first;
};

/* Sets an alarm; if it is set already, only the new time counts. */
void alarms_set(struct alarms *alarms, struct alarm *alarm, int64_t at_us);

/* Clears an alarm, if it is set. */
void alarms_clear(struct alarms *alarms, struct alarm *alarm);

#endif

/*
 * marks.h - who has news, told by any thread to the one that looks: a stack
 * that many push to without a lock, and one takes all of.
 *
 *     struct lane { struct mark mark; ... };
 *
 *     if (marks_set(&marks, &lane->mark))          any thread
 *         wake(...);
 *
 *     mark = marks_take(&marks);                   the one that looks
 *     for (; mark; mark = next) {
 *         next = mark->next;                       before it is cleared
 *         ... mark_clear(mark), then look at what it has ...
 *     }
 *
 * A mark is set until it is cleared: so long it is in the stack, or was taken
 * and is in the hands of the one that looks, and setting it again does nothing.
 * Whoever has one is pushed once, however often it has news.
 *
 * All zero: nobody has news. Whose mark may be in the stack is not freed:
 * marks_take before.
 */
#ifndef BASE_MARKS_H
#define BASE_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>

struct mark {
    struct mark *next;  /* of those that were taken; NULL: the last */
    atomic_bool is_set; /* it is in the stack, or taken and not cleared */
    bool is_taken;      /* the looking thread's: set, and off the stack */
};

struct marks {
    _Atomic(struct mark *) top;
};

/* Any thread. True: it was not set, and who looks is to be woken. */
bool marks_set(struct marks *marks, struct mark *mark);

/* Any thread. */
bool mark_is_set(const struct mark *mark);

/* The rest is the looking thread's. */

/* All that are in the stack, the youngest first; they stay set. NULL: none. */
struct mark *marks_take(struct marks *marks);

/* Before what it has is looked at: what comes from now on sets it again. One
 * that is still in the stack stays set, and is looked at once more: cleared
 * there it would be pushed a second time, upon itself. */
void mark_clear(struct mark *mark);

#endif

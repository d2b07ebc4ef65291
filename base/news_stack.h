/*
 * news_stack.h - marks for news: any thread sets them, one thread looks. The
 * marks form a stack: many threads push without a lock, and one takes all.
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
 * A mark is set until it is cleared. So long it is in the stack, or the looking
 * thread has taken it, and setting it again does nothing: the owner of a mark
 * is pushed once, however often it has news.
 *
 * All zero: no mark is set. Before the owner of a mark is freed, marks_take
 * must have emptied the stack.
 */
#ifndef BASE_NEWS_STACK_H
#define BASE_NEWS_STACK_H

#include <stdatomic.h>
#include <stdbool.h>

struct mark {
    struct mark *next;  /* the next taken one; NULL: the last */
    atomic_bool is_set; /* in the stack, or taken and not cleared */
    bool is_taken;      /* set, and off the stack; for the looking thread */
};

struct marks {
    _Atomic(struct mark *) top;
};

/* Sets a mark. Any thread. True: it was not set, so wake the looking thread. */
bool marks_set(struct marks *marks, struct mark *mark);

/* Any thread. */
bool mark_is_set(const struct mark *mark);

/* For the looking thread only. */

/* Takes all marks in the stack, the youngest first; they stay set. NULL:
 * none. */
struct mark *marks_take(struct marks *marks);

/* Clears a mark, before the look at its owner's news: later news sets it again.
 * A mark that is still in the stack stays set, and its owner is looked at once
 * more: if it were cleared there, it would be pushed a second time, upon
 * itself. */
void mark_clear(struct mark *mark);

#endif

#include "base/news_stack.h"

#include <stddef.h>

/*
 * Why no news is lost. A setter makes its news visible under a lock (a commit:
 * the head's), then sets the mark: an exchange X. The looking thread clears the
 * mark, a store F, then looks under the same lock. Let X find the mark set, and
 * do nothing, because F comes behind it. If the look were before the news in
 * the order of the lock, F would happen before X: so the look is behind the
 * news, and sees it. If X finds the mark not set, it is the only exchange that
 * does, and its thread is the only one that pushes, until F.
 *
 * Why `next` needs no atomics: a pushing thread writes it before the
 * compare-exchange that publishes it. The looking thread reads it behind the
 * exchange in marks_take, which synchronizes with that compare-exchange, and
 * with those of the elements below, because each read-modify-write of `top`
 * continues their release sequences. The next thread that pushes the element
 * writes it again, after it has read the `false` that mark_clear stores behind
 * that reading.
 *
 * Why there is no ABA: no thread takes a single element off. Between load and
 * compare-exchange `top` may have been taken and pushed anew; if it is the same
 * again, it is the top of the elements that are below it now.
 *
 * Sequentially consistent, though less would do: this happens once per commit.
 */

bool
marks_set(struct marks *marks, struct mark *mark)
{
    struct mark *top;

    if (atomic_exchange(&mark->is_set, true))
        return false;
    top = atomic_load(&marks->top);
    do
        mark->next = top;
    while (!atomic_compare_exchange_weak(&marks->top, &top, mark));
    return true;
}

bool
mark_is_set(const struct mark *mark)
{
    return atomic_load(&mark->is_set);
}

struct mark *
marks_take(struct marks *marks)
{
    struct mark *all = atomic_exchange(&marks->top, NULL);

    for (struct mark *mark = all; mark; mark = mark->next)
        mark->is_taken = true;
    return all;
}

void
mark_clear(struct mark *mark)
{
    if (!mark->is_taken)
        return;
    mark->is_taken = false;
    atomic_store(&mark->is_set, false);
}

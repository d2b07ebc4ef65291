#include "base/marks.h"

#include <stddef.h>

/*
 * Why no news is lost. Who has news makes it visible under a lock (a commit:
 * the head's), then sets the mark: an exchange X. Who looks clears the mark, a
 * store F, then looks under the same lock. Let X find the mark set, and do
 * nothing, for F comes behind it. Were the look before the news in the order of
 * the lock, then F would happen before X: so the look is behind the news, and
 * sees it. And where X finds it not set, it is the only one to do so, and its
 * thread the only one that pushes, until F.
 *
 * Why `next` needs no atomics: it is written by the one that pushes, before the
 * compare-exchange that publishes it, and read behind the exchange in
 * marks_take, which synchronizes with that one, and with those below it, as
 * each read-modify-write of `top` continues their release sequences. It is
 * written again by the next one to push it, who has seen the `false` that was
 * stored behind that reading.
 *
 * Why there is no ABA: nobody takes a single element off. Between load and
 * compare-exchange `top` may have been taken and pushed anew, and if it is the
 * same again then it is the top of what is below it now.
 *
 * Sequentially consistent, though less would do: this is once a commit.
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

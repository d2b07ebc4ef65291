/*
 * time_search.c - log_since: from a time to a seq.
 *
 * The tail is asked first. Else the closed lists say between which seqs it is
 * (their ends are in the database: a row each), and the batches between are
 * searched, each one read halving what is left: some twenty of them for a log
 * of any size.
 */

#include "broker/log/log.h"
#include "broker/log/log_set.h"

/* The entry that is looked for is `after` or later, and before or at `last`:
 * T(after) <= us < T(last + 1). */
struct span {
    uint64_t after, last;
};

/* Closed list `number`, which `head` retains. STATUS_AGAIN: the list has gone
 * since; the search begins anew from the new *head. */
static enum status
find_list(struct log *log, struct log_set *set, struct head *head,
          uint64_t number, struct list_info *info, struct problem *why)
{
    uint64_t first_list = head->first_list;
    size_t n = 1;
    enum status rc = log_lists(log, set, number, info, &n, why);

    if (rc || (n == 1 && info->number == number))
        return rc;
    tail_head(&set->tail, head);
    return head->first_list > first_list
               ? STATUS_AGAIN
               : problem(why, STATUS_GONE, "list %" PRIu64 " is gone", number);
}

/* Narrows the span to the list that has the moment. Every number's list is
 * there from the first that is retained on, up to the open one. */
static enum status
narrow_by_lists(struct log *log, struct log_set *set, struct head *head,
                int64_t us, struct span *span, struct problem *why)
{
    /* List `low` begins at or before `us`; `high` does not. */
    uint64_t low = head->first_list, high = head->list;
    struct list_info info = head_open_list(head), middle_info;
    enum status rc = STATUS_OK;

    span->after = head->list_after;
    span->last = head->last;
    if (us >= head->list_from_us)
        return STATUS_OK;
    if (low < high)
        rc = find_list(log, set, head, low, &info, why);
    if (!rc && us < info.from_us && info.after > 0)
        return problem(why, STATUS_GONE,
                       "the entries of that time are no longer retained");
    while (!rc && low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;

        rc = find_list(log, set, head, middle, &middle_info, why);
        if (!rc && middle_info.from_us <= us) {
            low = middle;
            info = middle_info;
        } else {
            high = middle;
        }
    }
    span->after = info.after;
    span->last = info.last;
    return rc;
}

enum status
log_since(struct log *log, struct log_set *set, int64_t us,
          enum log_patience patience, uint64_t *seq, struct problem *why)
{
    struct span span = {0, 0};
    struct batch *b;
    struct head head;
    enum status rc;

    tail_head(&set->tail, &head);
    if (us >= head.last_us) {
        *seq = head.last;
        return STATUS_OK;
    }
    b = tail_find_time(&set->tail, us);
    if (b) {
        *seq = batch_seq_at(b, us);
        batch_unref(b);
        return STATUS_OK;
    }
    if (patience == LOG_MEMORY)
        return STATUS_AGAIN;

    if (us < head.created_us) {
        rc = log_read(log, set, 0, LOG_DISK, &b, why);
        if (!rc)
            batch_unref(b); /* entry 1 is there: all of it happened since */
    } else {
        do
            rc = narrow_by_lists(log, set, &head, us, &span, why);
        while (rc == STATUS_AGAIN);
    }
    while (!rc && span.after < span.last) {
        uint64_t middle = span.after + (span.last - span.after) / 2;

        rc = log_read(log, set, middle, LOG_DISK, &b, why);
        if (!rc && !b)
            rc = problem(why, STATUS_IO, "the log ends before entry %" PRIu64,
                         middle + 1);
        if (rc)
            break;
        if (us < b->before_us)
            span.last = b->first - 2;
        else if (us < b->last_us)
            span.after = span.last = batch_seq_at(b, us);
        else
            span.after = b->last;
        batch_unref(b);
    }
    *seq = span.after;
    return rc;
}

/*
 * since.c - log_since: from a time to a seq.
 *
 * The tail is asked first. Else the closed lists say between which seqs it is
 * (their ends are in the database: a row each), and the batches between are
 * searched, each one read halving what is left: some twenty of them for a log
 * of any size.
 */
#include "broker/log/log.h"
#include "broker/log/set.h"

/* The entry that is looked for is `after` or later, and before or at `last`:
 * T(after) <= us < T(last + 1). */
struct span {
    uint64_t after, last;
};

/* Narrows the span to the list that has the moment. Every number's list is
 * there from the first that is retained on, up to the open one. */
static enum status
narrow_by_lists(struct log *log, struct log_set *set, const struct head *head,
                int64_t us, struct span *span, struct problem *why)
{
    /* List `low` begins at or before `us` or is the first; `high` does not. */
    uint64_t low = 1, high = head->list + 1;
    struct list_info info = {.number = 0};
    size_t n = 1;
    enum status rc;

    rc = log_lists(log, set, 1, &info, &n, why);
    if (rc || n == 0)
        return rc;
    if (us < info.from_us && info.after > 0)
        return problem(why, STATUS_GONE,
                       "what happened then is no longer retained");
    low = info.number;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;

        n = 1;
        rc = log_lists(log, set, middle, &info, &n, why);
        if (rc)
            return rc;
        /* The open list has no row, nor has one that closed after `head`. */
        if (n == 0 || info.number != middle ? head->list_from_us <= us
                                            : info.from_us <= us)
            low = middle;
        else
            high = middle;
    }
    n = 1;
    rc = log_lists(log, set, low, &info, &n, why);
    if (rc)
        return rc;
    if (n == 1 && info.number == low) {
        span->after = info.after;
        span->last = info.last;
    } else {
        span->after = head->list_after;
    }
    return STATUS_OK;
}

static enum status
search(struct log *log, struct log_set *set, int64_t us, struct span *span,
       struct problem *why)
{
    while (span->after < span->last) {
        uint64_t middle = span->after + (span->last - span->after) / 2;
        struct batch *b;
        enum status rc = log_read(log, set, middle, LOG_DISK, &b, why);

        if (rc)
            return rc;
        if (!b)
            return problem(why, STATUS_IO, "the log ends too early");
        if (us < b->before_us)
            span->last = b->first - 2;
        else if (us < b->last_us)
            span->after = span->last = batch_seq_at(b, us);
        else
            span->after = b->last;
        batch_unref(b);
    }
    return STATUS_OK;
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

    span.last = head.last;
    rc = us < head.created_us
             ? log_read(log, set, 0, LOG_DISK, &b, why)
             : narrow_by_lists(log, set, &head, us, &span, why);
    if (!rc && us < head.created_us) {
        batch_unref(b); /* entry 1 is there: all of it happened since */
        span.last = 0;
    }
    if (!rc)
        rc = search(log, set, us, &span, why);
    *seq = span.after;
    return rc;
}

#include "broker/readers/latest_message.h"

#include "broker/readers/selection.h"
#include "broker/sets/framework_events.h"

/* Entries searched in one step backwards. */
#define STEP_ENTRIES 1024

/* The entries of the message; last is 0: none. */
struct range {
    uint64_t after, last;
};

/* Framework events */

struct search {
    const struct message_wish *wish;
    struct filter_class channel;
    struct range found;
};

/* Finds the beginning of the round of the found entry: goes back while an entry
 * is of the same round as the next one. */
static enum status
find_round(struct search *s, uint64_t earliest, struct problem *why)
{
    struct range *found = &s->found;
    bool is_more = true;

    found->after = found->last - 1;
    while (is_more) {
        struct batch *b;
        enum status rc =
            log_read(s->wish->set->registry->log,
                     channel_log(s->wish->set, s->wish->is_framework),
                     found->after, LOG_DISK, &b, why);

        if (rc || !b)
            return rc;
        while (is_more && found->after >= b->first - 1) {
            is_more = found->after != earliest &&
                      found->last - found->after != LATEST_MESSAGE_ROUND_MAX &&
                      batch_time(b, found->after) + 1 ==
                          batch_time(b, found->after + 1);
            if (is_more)
                found->after--;
        }
        batch_unref(b);
    }
    return STATUS_OK;
}

/* Finds the last entry after `after` up to `last` that passes. */
static enum status
look_through(struct search *s, uint64_t after, uint64_t last,
             struct problem *why)
{
    struct log *log = s->wish->set->registry->log;
    enum status rc = STATUS_OK;

    while (!rc && after < last) {
        struct selection selection;
        struct batch *b;
        size_t n;

        rc = log_read(log, channel_log(s->wish->set, s->wish->is_framework),
                      after, LOG_DISK, &b, why);
        if (rc || !b)
            break;
        rc = selection_make(&selection, b, &s->channel, MESSAGE_XML, NULL, why);
        if (!rc) {
            n = selection_after(&selection, b->last < last ? b->last : last);
            if (n > 0)
                s->found.last = selection_seq(&selection, n - 1);
            selection_fini(&selection);
        }
        after = b->last;
        batch_unref(b);
    }
    return rc;
}

/* Finds the last events of the set. Their place is known if they came after the
 * start; otherwise searches backwards, over the events of other sets, and notes
 * it. */
static enum status
find_events(const struct message_wish *wish, const struct head *head,
            struct range *range, struct problem *why)
{
    struct search s = {.wish = wish};
    uint64_t last = head->last, known = framework_event_last(wish->set);
    enum status rc = channel_filter(&s.channel, wish->set->name, why);

    if (!rc && known > head->earliest && known <= last)
        rc = look_through(&s, known - 1, known, why);
    if (known > 0 && known <= last)
        last = head->earliest;
    while (!rc && s.found.last == 0 && last > head->earliest) {
        uint64_t after = last - head->earliest > STEP_ENTRIES
                             ? last - STEP_ENTRIES
                             : head->earliest;

        rc = look_through(&s, after, last, why);
        last = after;
    }
    if (!rc && s.found.last > 0)
        rc = find_round(&s, head->earliest, why);
    *range = s.found;
    if (!rc && known == 0)
        framework_event_found(wish->set, s.found.last ? s.found.last : 1);
    return rc;
}

/* Both */

enum status
latest_message_write(struct buf *to, const struct message_wish *wish,
                     struct problem *why)
{
    struct message_wish part = *wish;
    struct range range;
    struct head head;
    size_t before = to->size;
    enum status rc = STATUS_OK;

    log_head(channel_log(wish->set, wish->is_framework), &head);
    range = (struct range){head.commit_after, head.last};
    if (wish->is_framework)
        rc = find_events(wish, &head, &range, why);
    else if (range.after < head.earliest) /* partly removed */
        range.after = head.earliest;
    part.reached = 0;
    part.filter = NULL;
    part.is_silent = part.has_next = false;
    part.patience = LOG_DISK;
    part.upto = range.last;
    /* Only making a message shows where it ends. */
    while (!rc && range.after < range.last) {
        to->size = before;
        part.after = range.after;
        rc = message_write(to, &part, &range.after, why);
    }
    return rc;
}

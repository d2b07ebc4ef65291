#include "broker/sets/discards.h"

#include <inttypes.h>
#include <string.h>

#include "broker/sets/retention.h"

/* Archived generations that are read at once. */
#define STEP 64

static struct retention
retention_of(const struct settings *settings)
{
    return (struct retention){settings->retain_lists, settings->retain_age_us};
}

/* Reads one closed list. */
static enum status
read_list(const struct set *set, uint64_t number, struct list_info *list,
          struct problem *why)
{
    size_t n = 1;
    enum status rc =
        log_lists(registry_log(set->registry), set->log, number, list, &n, why);

    if (!rc && n == 0)
        rc = problem(why, STATUS_IO, "the log has lost list %" PRIu64, number);
    return rc;
}

/* Sets *number to the oldest list that `retention` keeps; the open list, if it
 * keeps no closed one. Lists end in the order of their numbers: a search by
 * halves reads few of them. */
static enum status
first_kept(const struct set *set, const struct head *head,
           const struct retention *retention, uint64_t *number,
           struct problem *why)
{
    uint64_t end = head->list;
    int64_t since_us = retention_since_us(retention);
    enum status rc = STATUS_OK;

    *number = head->first_list +
              retention_over(retention, head->list - head->first_list);
    while (!rc && since_us != INT64_MIN && *number < end) {
        uint64_t middle = *number + (end - *number) / 2;
        struct list_info list;

        rc = read_list(set, middle, &list, why);
        if (!rc && list.until_us < since_us)
            *number = middle + 1;
        else
            end = middle;
    }
    return rc;
}

static enum status
count_lists(const struct set *set, const struct head *head,
            const struct retention *before, const struct retention *after,
            struct discards *d, struct problem *why)
{
    uint64_t kept_before, kept_after;
    struct list_info oldest, newest;
    enum status rc = first_kept(set, head, before, &kept_before, why);

    if (!rc)
        rc = first_kept(set, head, after, &kept_after, why);
    if (rc || kept_after <= kept_before)
        return rc;
    d->lists = kept_after - kept_before;
    rc = read_list(set, kept_before, &oldest, why);
    if (!rc)
        rc = read_list(set, kept_after - 1, &newest, why);
    if (!rc)
        d->entries = newest.last - oldest.after;
    return rc;
}

/* True if `retention` lets go of the generation that is the `i`-th of `n`
 * archived ones. The newest one always stays. */
static bool
lets_go(const struct retention *retention, int64_t since_us,
        const struct generation *generation, uint64_t i, uint64_t n)
{
    return i + 1 < n && (i < retention_over(retention, n) ||
                         generation->completed_us < since_us);
}

/* Archived generations are few, and as a rule complete in the order of their
 * numbers. */
static enum status
count_archived(const struct set *set, const struct generations *all,
               enum generation_kind kind, const struct retention *before,
               const struct retention *after, struct discards *d,
               struct problem *why)
{
    int64_t before_us = retention_since_us(before);
    int64_t after_us = retention_since_us(after);
    uint64_t number = all->first_archived;

    for (uint64_t i = 0; i + 1 < all->n_archived;) {
        struct generation some[STEP];
        size_t n = STEP;
        enum status rc = log_generations(registry_log(set->registry), set->log,
                                         kind, number, some, &n, why);

        if (rc || n == 0)
            return rc;
        for (size_t j = 0; j < n; j++, i++) {
            if (!lets_go(after, after_us, &some[j], i, all->n_archived))
                return STATUS_OK;
            if (lets_go(before, before_us, &some[j], i, all->n_archived))
                continue;
            d->archived++;
            d->archived_bytes += some[j].bytes;
        }
        number = some[n - 1].number + 1;
    }
    return STATUS_OK;
}

/* The archive thread counts the files behind the log. Acquire: the numbers are
 * at least as new as the entry up to which it says that they are. */
static void
count_content(const struct set *set, const struct head *head,
              struct discards *d)
{
    uint64_t last =
        atomic_load_explicit(&set->content_counts.last, memory_order_acquire);

    d->files =
        atomic_load_explicit(&set->content_counts.files, memory_order_relaxed);
    d->bytes =
        atomic_load_explicit(&set->content_counts.bytes, memory_order_relaxed);
    if (last < head->last)
        d->uncounted = head->last - last;
}

enum status
discards_count(const struct set *set, const struct head *head,
               const struct settings *before, const struct settings *after,
               struct discards *d, struct problem *why)
{
    struct retention is = retention_of(before), will_be = retention_of(after);
    enum status rc = STATUS_OK;

    memset(d, 0, sizeof(*d));
    if (before->content != CONTENT_NONE && after->content == CONTENT_NONE)
        count_content(set, head, d);
    if (is.lists == will_be.lists && is.age_us == will_be.age_us)
        return STATUS_OK;
    rc = count_lists(set, head, &is, &will_be, d, why);
    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = count_archived(set, &head->generations[kind],
                            (enum generation_kind)kind, &is, &will_be, d, why);
    return rc;
}

bool
discards_any(const struct discards *d)
{
    return d->lists || d->archived || d->files || d->uncounted;
}

/* Appends "3 closed Change Lists (150 entries)" behind *separator. */
static void
explain_one(struct buf *to, const char **separator, uint64_t n,
            const char *what, uint64_t size, const char *unit)
{
    if (n == 0)
        return;
    buf_add_format(to, "%s%" PRIu64 " %s%s (%" PRIu64 " %s)", *separator, n,
                   what, n > 1 ? "s" : "", size, unit);
    *separator = ", ";
}

void
discards_explain(const struct discards *d, struct problem *why)
{
    const char *separator = "this would delete ";
    struct buf text;

    buf_init(&text, sizeof(why->text));
    explain_one(&text, &separator, d->lists, "closed Change List", d->entries,
                "entries");
    explain_one(&text, &separator, d->archived, "archived document",
                d->archived_bytes, "bytes");
    explain_one(&text, &separator, d->files, "content file", d->bytes, "bytes");
    if (d->uncounted)
        buf_add_format(&text,
                       "%sthe content of the last %" PRIu64
                       " entries, which is not counted yet",
                       separator, d->uncounted);
    problem_set(why, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_fini(&text);
}

void
discards_write(struct buf *to, const struct discards *d)
{
    buf_add_format(to,
                   "{\"lists\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"archived\":%" PRIu64 ",\"archivedBytes\":%" PRIu64
                   ",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
                   ",\"uncounted\":%" PRIu64 "}",
                   d->lists, d->entries, d->archived, d->archived_bytes,
                   d->files, d->bytes, d->uncounted);
}

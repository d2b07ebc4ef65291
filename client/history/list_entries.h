/*
 * list_entries.h - the entries of one Change List, and which of them are new,
 * until they are handed over: in the order of events, not of arrival.
 *
 *     list_entries_add ... --> list_entries_finish
 *                                --> kept->entries[0 .. n - 1]
 *
 * The new entries are found by the order of the list: the place says
 * how many of its entries were read, and their sum. If these are no longer its
 * first ones, or, in a list that grows at its front, its last ones, the entries
 * are recognised one by one. The times decide only where nothing is
 * known of the list.
 *
 * new entries are handed over in the order of datetime, else of the
 * document: an entry without a datetime gets that of the one before. If no
 * entry of a list has a datetime, lastmod replaces it. A list whose times fall
 * from each entry to the next is turned round; any other disorder is
 * sorted, stably.
 *
 * A time more than a day ahead is ignored: the place after it would skip all
 * changes until then.
 */
#pragma once

#include "client/history/read_lists.h"
#include "client/source/document.h"
#include "client/source/source_position.h"

/* A list has 50,000; the pages of one may have more together. */
#define LIST_ENTRIES_ENTRIES_MAX 1000000
#define LIST_ENTRIES_BYTES_MAX   (256u * 1024 * 1024)

/* What was read of the list before. */
struct list_past {
    struct source_position after;
    bool is_by_order; /* the first `n` entries, of that sum, were read */
    bool is_other;    /* or it is another list, of which nothing was read */
    bool has_all;     /* nothing of the list is new (is_end) */
    uint64_t n, sum;
    uint64_t mark;         /* of the last of these; 0: unknown */
    struct mark_set known; /* the marks of these; none: unknown */
};

/* How the entries that were read were found. */
enum list_found {
    LIST_BY_TIME, /* not yet: the caller compares their times with the place */
    LIST_CONTINUED, /* the first `n` of the past */
    LIST_MARKED,    /* each by its mark: the beginning has changed */
    LIST_SLID,      /* the last one; perhaps not all others */
    LIST_LOST       /* none of them */
};

struct list_entries_entry {
    int64_t when_us;   /* after list_entries_finish */
    int64_t before_us; /* last datetime before this entry */
    int64_t bound_us;  /* it happened at that time or earlier; without a time,
                          the next one; INT64_MAX: unknown */
    uint64_t mark;
    size_t i; /* in `marks` */
    size_t page;
    bool has_time; /* of its own */
    bool is_known; /* it was read before, or stands in an earlier page */
    struct document_entry *entry; /* a copy */
};

/* The directions in which the times of a list go. */
struct list_entries_way {
    int64_t last_us, newest_us; /* or DATETIME_NONE */
    uint64_t n;                 /* entries with such a time */
    bool rises, falls, ties;
};

struct list_entries {
    int64_t latest_us; /* later times are ignored */
    struct list_entries_entry *entries;
    size_t n;
    size_t capacity;
    size_t bytes;
    size_t page;       /* of the entries added now */
    size_t n_bounded;  /* entries with a bound */
    uint64_t n_seen;   /* including those not kept */
    int64_t first_us;  /* earliest time seen, or DATETIME_NONE */
    bool has_datetime; /* any entry seen has one */
    struct list_entries_way datetimes, lastmods;

    /* Lists without seqs: all entries, in the order of the place. */
    uint64_t *marks;
    size_t n_marks, marks_capacity;
    uint64_t sum_past; /* of the first past.n */
    enum list_found found;
    bool is_in_order; /* the new entries are the last ones, in the order of
                         `marks` */
    bool is_doubtful; /* some may be new that are not handed over */
};

void list_entries_init(struct list_entries *kept);
void list_entries_fini(struct list_entries *kept);

/* Keeps a copy of `entry`, unless it was read before. STATUS_TOO_LARGE: too
 * many entries or bytes; STATUS_MEMORY. */
MUST_CHECK enum status list_entries_add(struct list_entries *kept,
                                        const struct document_entry *entry,
                                        struct list_past *past);

/* Restores the state of which `before` is a copy. */
void list_entries_rewind(struct list_entries *kept,
                         const struct list_entries *before,
                         struct list_past *past);

/* Puts the entries in order when all have come, and finds the new ones.
 * `from_us`: where the list begins, or DATETIME_NONE. Lists with seqs stay as
 * they are. */
void list_entries_finish(struct list_entries *kept, int64_t from_us,
                         const struct list_past *past);

/* Returns the time of the newest entry, or DATETIME_NONE. */
int64_t list_entries_newest(const struct list_entries *kept);

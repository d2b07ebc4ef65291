/*
 * list_entries.h - the entries of one Change List after a place, until they are
 * handed over: in the order of events, not of arrival.
 *
 *     list_entries_add ... --> list_entries_finish --> kept->entries[0 .. n -
 * 1]
 *
 * the order is that of datetime, else that of the document: an entry
 * without a datetime gets that of the one before. If no entry of a list has a
 * datetime, lastmod replaces it. A list from new to old is turned round; any
 * other disorder is sorted, stably.
 *
 * A time more than a day ahead is ignored: the place after it would skip all
 * changes until then.
 *
 * Entries before the place are only examined, not kept: all entries together
 * show which way round the list is, so that entries of one moment have the same
 * order for every place.
 */
#ifndef CLIENT_HISTORY_LIST_ENTRIES_H
#define CLIENT_HISTORY_LIST_ENTRIES_H

#include "client/source/document.h"
#include "client/source/source_position.h"

/* A list has 50,000; the pages of one may have more together. */
#define LIST_ENTRIES_ENTRIES_MAX 1000000
#define LIST_ENTRIES_BYTES_MAX   (256u * 1024 * 1024)

struct list_entries_entry {
    int64_t when_us;   /* after list_entries_finish */
    int64_t before_us; /* last datetime before this entry */
    size_t page;
    struct document_entry *entry; /* a copy */
};

/* The directions in which the times of a list go. */
struct list_entries_way {
    int64_t last_us; /* or DATETIME_NONE */
    bool rises, falls;
};

struct list_entries {
    int64_t latest_us; /* later times are ignored */
    struct list_entries_entry *entries;
    size_t n;
    size_t capacity;
    size_t bytes;
    size_t page;       /* of the entries added now */
    uint64_t n_seen;   /* including those not kept */
    int64_t first_us;  /* earliest time seen, or DATETIME_NONE */
    bool has_datetime; /* any entry seen has one */
    struct list_entries_way datetimes, lastmods;
};

void list_entries_init(struct list_entries *kept);
void list_entries_fini(struct list_entries *kept);

/* Keeps a copy of `entry`, unless it is before `after`. STATUS_TOO_LARGE: too
 * many entries or bytes; STATUS_MEMORY. */
MUST_CHECK enum status list_entries_add(struct list_entries *kept,
                                        const struct document_entry *entry,
                                        const struct source_position *after);

/* Restores the state of which `before` is a copy. */
void list_entries_rewind(struct list_entries *kept,
                         const struct list_entries *before);

/* Puts the entries in order when all have come. `from_us`: where the list
 * begins, or DATETIME_NONE. Lists with seqs stay as they are. */
void list_entries_finish(struct list_entries *kept, int64_t from_us);

#endif

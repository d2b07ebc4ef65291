/*
 * kept.h - the entries of one Change List after a place, kept until they are
 * told: in the order of events, whatever order they came in.
 *
 *     kept_add ... --> kept_finish --> kept->entries[0 .. n - 1]
 *
 * their order is that of datetime where it is given, else that of the
 * document: an entry without takes the time of the one before. Where no entry
 * of a list has a datetime, lastmod stands for it. A list from new to old is
 * turned round; any other disorder is sorted, stably.
 *
 * A time that is still to come, by more than a day, is not believed: the place
 * after it would leave all behind that happens until then.
 *
 * What is before the place is not kept, only looked at: which way round the
 * list is shows in all of it, so that entries of one moment are in the same
 * order whatever the place.
 */
#ifndef CLIENT_HISTORY_KEPT_H
#define CLIENT_HISTORY_KEPT_H

#include "client/source/document.h"
#include "client/source/place.h"

/* A list has 50,000; what comes in pages may have more. */
#define KEPT_ENTRIES_MAX 1000000
#define KEPT_BYTES_MAX   (256u * 1024 * 1024)

struct kept_entry {
    int64_t when_us;   /* after kept_finish */
    int64_t before_us; /* datetime of the one before that had one */
    size_t page;
    struct document_entry *entry; /* a copy */
};

/* Which way the times of a list go. */
struct kept_way {
    int64_t last_us; /* or DATETIME_NONE */
    bool rises, falls;
};

struct kept {
    int64_t latest_us; /* that is believed */
    struct kept_entry *entries;
    size_t n;
    size_t capacity;
    size_t bytes;
    size_t page;       /* of the entries that are added now */
    uint64_t n_seen;   /* those that were not kept included */
    int64_t first_us;  /* earliest time seen, or DATETIME_NONE */
    bool has_datetime; /* of any entry seen */
    struct kept_way datetimes, lastmods;
};

void kept_init(struct kept *kept);
void kept_fini(struct kept *kept);

/* Keeps a copy of `entry`, unless it is before `after`. STATUS_TOO_LARGE: more
 * than is kept; STATUS_MEMORY. */
MUST_CHECK enum status kept_add(struct kept *kept,
                                const struct document_entry *entry,
                                const struct place *after);

/* As it was when `before` was a copy of it. */
void kept_rewind(struct kept *kept, const struct kept *before);

/* They have all come. `from_us`: where the list begins, or DATETIME_NONE. Lists
 * with seqs stay as they are. */
void kept_finish(struct kept *kept, int64_t from_us);

#endif

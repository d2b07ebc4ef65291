/*
 * history_parts.h - the documents that an index or an archive names, in order;
 * each once.
 */
#ifndef CLIENT_HISTORY_HISTORY_PARTS_H
#define CLIENT_HISTORY_HISTORY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "proto/status.h"

/* Of lists of 50,000 entries that is five thousand million; and the bytes of
 * what is kept of them. */
#define HISTORY_PARTS_MAX       100000
#define HISTORY_PARTS_BYTES_MAX (64u * 1024 * 1024)

struct history_part {
    char *url;
    int64_t from_us, until_us; /* or DATETIME_NONE */
    bool is_package;           /* a ZIP, whose manifest is the list */

    /* What its own root says, once it was asked: */
    bool is_probed;
    int64_t begin_us; /* or DATETIME_NONE */
    bool has_seqs;
    uint64_t after; /* with seqs */
    char *prev;     /* NULL: none */
};

struct history_parts {
    struct history_part *all;
    size_t n;
    size_t before, behind; /* room for so many more on each side */
    size_t bytes;
    void *urls;
};

void history_parts_fini(struct history_parts *parts); /* all zero is empty */

/* Adds one at the end, unless it is there. STATUS_TOO_LARGE, STATUS_MEMORY. */
MUST_CHECK enum status history_parts_add(struct history_parts *parts,
                                         struct slice url, int64_t from_us,
                                         int64_t until_us);

/* Forgets those that were added after the first `n`. */
void history_parts_cut(struct history_parts *parts, size_t n);

/* puts them in order of `from`, if all have one. */
void history_parts_sort(struct history_parts *parts);

/* Puts those of `older` that are not there before all others, and empties it;
 * `*n` is how many that were. It costs what they cost, however many others
 * there are. STATUS_TOO_LARGE, STATUS_MEMORY: some of them are missing. */
MUST_CHECK enum status history_parts_prepend(struct history_parts *parts,
                                             struct history_parts *older,
                                             size_t *n);

#endif

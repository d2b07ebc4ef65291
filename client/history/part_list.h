/*
 * part_list.h - the documents that an index or an archive names, in order
 * and without repeats.
 */
#pragma once

#include "base/map.h"

/* Lists of 50,000 entries make that five thousand million; and the bytes of the
 * parts. */
#define HISTORY_PARTS_MAX       100000
#define HISTORY_PARTS_BYTES_MAX (64u * 1024 * 1024)

struct history_part {
    char *url;
    int64_t from_us, until_us; /* or DATETIME_NONE */
    bool is_package;           /* a ZIP with the list as its manifest */
    uint64_t row; /* hash of its entry in the index; 0: it has none */

    bool is_again; /* it was read, and is read again */
    bool is_read;  /* its entries were handed over, or are lost */
    bool is_gone;  /* it cannot be had: it is left out */

    /* From its own root, after a probe: */
    bool is_probed;
    int64_t begin_us; /* or DATETIME_NONE */
    bool has_seqs;
    uint64_t after; /* with seqs */
    char *prev;     /* NULL: none */
};

struct history_parts {
    struct history_part *all;
    size_t n;
    size_t before, behind; /* free places on each side */
    size_t bytes;
    struct text_set urls;
};

void history_parts_fini(struct history_parts *parts); /* all zero is empty */

/* Adds a copy of `like` with that URL at the end, unless the URL is known.
 * NULL: nothing else is known of it. STATUS_TOO_LARGE, STATUS_MEMORY. */
MUST_CHECK enum status history_parts_add(struct history_parts *parts,
                                         struct slice url,
                                         const struct history_part *like);

/* Removes the parts after the first `n`. */
void history_parts_cut(struct history_parts *parts, size_t n);

/* sorts the parts by `from`, if all have one. */
void history_parts_sort(struct history_parts *parts);

/* Puts the unknown parts of `older` before all others, sets `*n` to their
 * number, and empties `older`. The cost depends on `older` alone.
 * STATUS_TOO_LARGE, STATUS_MEMORY: some of them are missing. */
MUST_CHECK enum status history_parts_prepend(struct history_parts *parts,
                                             struct history_parts *older,
                                             size_t *n);

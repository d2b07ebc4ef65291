/*
 * journal.h - what a broker has acknowledged: which entry got which seq.
 *
 * Publishers note each answer as it comes; afterwards the journal is what every
 * receiver and every list is compared with. Safe on any thread.
 */
#ifndef TESTS_SUPPORT_JOURNAL_H
#define TESTS_SUPPORT_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "tests/support/trace.h"

/* An entry as it is posted. */
struct posted {
    char loc[256];
    const char *sha256; /* lent; NULL: none */
    uint64_t size;      /* of the resource; told where there is a sha256 */
};

struct journal {
    pthread_mutex_t lock;
    char **locs; /* entry seq is locs[seq - 1]; NULL: not acknowledged */
    size_t capacity;
    uint64_t last; /* highest seq acknowledged */
    uint64_t n;    /* how many are */
};

void journal_init(struct journal *j);
void journal_fini(struct journal *j);

/* The `n` entries of a post got the seqs `first` to `last`. false: that cannot
 * be, because of their number or because a seq was given before. */
bool journal_note(struct journal *j, uint64_t first, uint64_t last,
                  const struct posted *entries, size_t n, struct problem *why);

uint64_t journal_last(struct journal *j);

/* Every acknowledged entry that the trace covers is there with its loc, and
 * none that it should cover is missing. Entries that nobody acknowledged are
 * the caller's to judge. */
bool journal_is_in(struct journal *j, const struct trace *t,
                   struct problem *why);

#endif

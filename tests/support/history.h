/*
 * history.h - a set's history, made up: fragments, digests and messages as a
 * broker would send them.
 *
 * Entry N is "http://example.com/r?n=N&x=1", created at T(N) = 2026-01-01 and N
 * seconds.
 */
#ifndef TESTS_SUPPORT_HISTORY_H
#define TESTS_SUPPORT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/resourcesync/digest.h"
#include "proto/slice.h"

#define HISTORY_MAX 32

struct history {
    char epoch[17];
    struct digest digests[HISTORY_MAX + 1]; /* d(0) ... */
    char *fragments[HISTORY_MAX + 1];       /* from 1 on */
    size_t sizes[HISTORY_MAX + 1];
    char *made[256]; /* messages, freed with it */
    size_t n_made;
};

void history_init(struct history *h, const char *epoch);
void history_fini(struct history *h);

/* The message that covers (after, last], a heartbeat (of 20 seconds) if that is
 * nothing. Terminated, lent by the history. */
struct slice history_json(struct history *h, uint64_t after, uint64_t last);
struct slice history_xml(struct history *h, uint64_t after, uint64_t last);

/* The same, with those of the entries only whose seq `every` divides: as a
 * filter would have it. */
struct slice history_json_every(struct history *h, uint64_t after,
                                uint64_t last, uint64_t every);
struct slice history_xml_every(struct history *h, uint64_t after, uint64_t last,
                               uint64_t every);

/* A copy that may be spoilt, lent by the history. */
char *history_copy(struct history *h, struct slice message);

#endif

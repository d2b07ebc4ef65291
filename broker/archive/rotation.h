/*
 * rotation.h - asks the log to close old lists; writes closed lists to files.
 *
 * A list is old when its first entry is older than its set allows, by up to a
 * tenth of that more, so that many sets that began together do not end
 * together. A step files lists for about a second; after a failure it pauses
 * for a second.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/sets/registry.h"

struct rotation {
    struct chore chore;
    struct registry *registry;
    /* Requests to close a list without an answer yet. Relaxed: while a disk
     * stalls, the chore sends no more; a late look costs a second. */
    atomic_uint n_asked;
    /* Attempts to file a list that have failed since the last success. Relaxed:
     * a figure for monitoring. */
    atomic_uint n_failures;
    int64_t again_us; /* an attempt failed: none before this time */
};

void rotation_init(struct rotation *rotation, struct registry *registry);

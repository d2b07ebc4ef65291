/*
 * rotate.h - asks for lists to be closed by age; files what closed.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_ROTATE_H
#define BROKER_ARCHIVE_ROTATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "broker/sets/registry.h"

struct rotation {
    struct registry *registry;
    /* Closes that were asked for and not yet answered. Relaxed: while a disk
     * stalls, no more are asked for; a late look costs a second. */
    atomic_uint n_asked;
    /* Attempts to file a list that have failed since the last success. Relaxed:
     * a figure for who watches. */
    atomic_uint n_failures;
    int64_t again_us; /* an attempt failed: none before this time */
};

void rotation_init(struct rotation *rotation, struct registry *registry);

/* Asks the log to close every open list whose first entry is older than
 * its set allows, spread by up to a tenth of it so that many sets that began
 * together do not end together. */
void rotate_by_age(struct rotation *rotation);

/* Deletes some dropped data from the disk. False if none was due, or on
 * failure. */
bool rotate_purge_some(struct rotation *rotation);

/* Files closed lists, for about a second. False if none is left, or on failure:
 * then no list is filed for a second. */
bool rotate_file_some(struct rotation *rotation);

#endif

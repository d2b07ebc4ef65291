/*
 * backup.h - copies a data directory, also beside a running broker, as it is at
 * one moment.
 *
 *     DIR/manifest      the latest complete backup (manifest.h)
 *     DIR/000001/...    files that the first backup copied
 *     DIR/000002/...    files that the second one copied: all databases, and
 *                       what the first one did not have
 *     DIR/lock          one backup at a time
 *
 * The log is the order, so the moment of a backup is a position of tidings.db,
 * and the order of the copies is the guarantee:
 *
 *     the broker deletes nothing from here on (log.h)
 *      1. uploads            one that ends now has its changes in the log
 *      2. all databases      cursors and states, no newer than
 *      3. tidings.db         this moment; then the entries of its segments go
 *                            into the copy (the broker uses none of them again
 *                            meanwhile: segments.h)
 *      4. files that it names, and all content
 *      5. all is synced; the manifest gets its name
 *     the broker deletes again
 *      6. files that this manifest does not name go
 *
 * A restored broker folds the entries behind an older state, repeats deliveries
 * behind an older cursor, and writes the lists that had no file: as after a
 * crash at that moment.
 *
 * Files never change once they have their name. So they are linked where that
 * is possible, and a later backup into the same directory copies only new ones.
 * Each backup writes into a folder of its own, so the former one stays whole.
 */
#pragma once

#include "proto/problem.h"

struct backup_job {
    const char *data; /* the data directory */
    const char *dir;
    bool is_incremental; /* `dir` may have a backup */

    /* A file that should be there cannot be read: "PATH: REASON". */
    void (*on_missing)(const char *text, void *user);

    /* True if the backup is to fail before the next file, with STATUS_STOPPED.
     * NULL: never. */
    bool (*is_stopped)(void *user);
    void *user;

    /* Set by the backup. */
    uint64_t n_sets, n_lists, n_builds, n_contents, n_databases;
    uint64_t n_copied, copied_bytes; /* files */
    uint64_t n_kept, kept_bytes;     /* that the former backup has */
    uint64_t n_remote; /* files that the bucket has, and the backup has not */
    uint64_t n_missing;
};

/* Makes a backup. STATUS_INVALID: `dir` has a backup, or other files. After a
 * failure the former backup is as it was. */
MUST_CHECK enum status backup_make(struct backup_job *job, struct problem *why);

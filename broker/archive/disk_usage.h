/*
 * disk_usage.h - how much room the files of the data directory take, by kind:
 * the metric tidings_disk_bytes.
 *
 *     tidings.db, hub.db ..., sets/NAME/resources.db     database
 *     tidings.db-wal ...                                 wal
 *     sets/NAME/changes/, tile/                          change-lists
 *     sets/NAME/resourcelist/                            resource-lists
 *     sets/NAME/resourcedump/, changedump/               dumps
 *     uploads/, arriving/, *.new                         temporary
 *
 * A walk through the directory takes as long as there are names, so it goes in
 * steps: DISK_USAGE_STEP names a second. That takes 4 ms of processor time
 * (measured, with the names in the cache of the kernel), at low priority.
 * The metric gets the sums at the end of a walk, and the next one begins
 * DISK_USAGE_PAUSE_S later: 50,000 sets with ten names each take four minutes.
 * The walk leaves out content, perhaps millions of files: the sets count its
 * bytes (registry_measure).
 *
 * A file counts with the blocks that it has; directories do not count. The walk
 * does not follow symbolic links. It leaves out what it cannot read.
 *
 * It deletes records of OAI-PMH for which nobody has asked for long
 * (registry.h), for it comes by them.
 *
 * Before each step it has the registry count what the sets keep for their
 * creators (registry_count_kept).
 *
 * Archive thread.
 */
#pragma once

#include <dirent.h>

#include "broker/archive/chore.h"
#include "broker/base/metrics.h"
#include "broker/sets/registry.h"

#define DISK_USAGE_STEP    2000
#define DISK_USAGE_PAUSE_S 60

/* DATA/sets/NAME/tile/0/x001/x234/567.p */
#define DISK_USAGE_DEPTH 8

struct disk_usage {
    struct chore chore;
    struct registry *registry;
    int64_t next_us; /* steady: when the next walk begins */
    uint64_t bytes[DISK_KINDS];
    unsigned depth; /* directories open; 0: no walk */
    char set[256];  /* the last folder in sets/ */

    struct {
        DIR *dir;
        enum metric_disk kind; /* of its files */
    } open[DISK_USAGE_DEPTH];
};

void disk_usage_init(struct disk_usage *usage, struct registry *registry);

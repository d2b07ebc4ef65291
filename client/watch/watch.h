/*
 * watch.h - publishes a directory's files as a set: posts changes of the disk.
 *
 *     inotify --> dirty paths --> look at each --> posts --> the broker
 *                     ^            |     ^           |
 *                     |            v     |           v
 *       all of them: at the start  disk against database (last posted state)
 *
 * A change is a difference between the disk and the database; inotify only says
 * where to look first. So lost or late events do no harm: after an overflow of
 * the queue, a crash, a month without a watch, the watch compares everything.
 * Memory is a path per folder, the names of one folder at a time, a post, and
 * the bounded list of dirty paths.
 *
 * One thread. It reads events after it has waited for the disk or the broker;
 * meanwhile the kernel's queue holds them (bounded: it reports an overflow).
 */
#pragma once

#include "client/tidings.h"
#include "proto/problem.h"

struct watch_options {
    const char *dir;
    const char *set_url;
    const char *base_uri;
    const char *state;           /* a folder; made if it is missing */
    const char *const *excludes; /* globs: file_uri_is_excluded */
    size_t n_excludes;
    struct td_client *client; /* of the set's server */
    bool is_once;     /* compare, post, end; fails if the broker is away */
    bool allow_empty; /* may start with a directory without files, and post the
                         deletion of all posted ones */

    /* All folders are watched; not with is_once. */
    void (*on_ready)(unsigned n_folders, void *user);
    void (*on_posted)(const struct td_receipt *receipt, size_t n_entries,
                      void *user);
    void (*on_warning)(const char *text, void *user);
    void *user;
};

struct watch;

/* NULL: no memory, or no descriptors. All options are lent until watch_free. */
struct watch *watch_new(const struct watch_options *options);
void watch_free(struct watch *watch);

/* Watches until it is stopped or cannot go on. Returns the reason, lent:
 * STATUS_OK if it was stopped, or all is posted, with is_once; STATUS_INVALID
 * for a mistake of the options. */
const struct problem *watch_run(struct watch *watch);

/* From any thread or a signal handler: watch_run ends soon, and has recorded
 * all its posts. `watch`: a struct watch. */
void watch_stop(void *watch);

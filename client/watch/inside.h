/*
 * inside.h - a watch, for this folder only: watch.c, which waits and posts,
 * and looks.c, which compares, share it.
 */
#ifndef CLIENT_WATCH_INSIDE_H
#define CLIENT_WATCH_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "client/watch/directory_tree.h"
#include "client/watch/file_digest.h"
#include "client/watch/inotify.h"
#include "client/watch/media_types.h"
#include "client/watch/path_queue.h"
#include "client/watch/post_queue.h"
#include "client/watch/watch.h"
#include "client/watch/watch_db.h"

struct watch {
    struct watch_options options;
    struct td_client *client;
    int stop_fd; /* an eventfd, readable when the watch has to stop */
    atomic_bool is_stopped;

    struct directory_tree tree;
    struct stat state; /* of the folder where the ledger is */
    struct watch_db *ledger;
    struct inotify *watches; /* NULL: is_once */
    struct mediatypes *types;
    struct filehasher *hasher;
    struct file_digest hash;
    struct path_queue dirty;
    struct post_queue outbox;

    bool needs_scan;  /* events were lost: look at all files */
    bool is_gone;     /* the directory */
    bool is_usage;    /* the caller's mistake */
    uint64_t n_files; /* seen by this scan */
    unsigned n_looks;
    struct problem why;
};

/* Reads the kernel's events. False: the watch ends. */
bool watch_hear(struct watch *w);

/* Call it after each look at a file: posts when that is due, and reads events
 * now and then. */
bool watch_go_on(struct watch *w);

void watch_warn(struct watch *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All three end the watch, and return false. watch_trouble returns the first
 * reason. */
bool watch_fail(struct watch *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool watch_ledger_failed(struct watch *w);
bool watch_gone(struct watch *w);

#endif

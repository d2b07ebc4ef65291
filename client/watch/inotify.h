/*
 * inotify.h - watches each folder by inotify, and reports their events.
 *
 * A watch belongs to a folder's inode and goes with it when that is moved; this
 * part keeps the path of each watch. An event only means "look at this path":
 * an outdated path costs a look.
 */
#pragma once

#include "proto/problem.h"

struct inotify;

enum inotify_news {
    INOTIFY_LOOK, /* something happened to `path` */
    INOTIFY_LOST, /* the kernel's queue ran over: look at everything */
    INOTIFY_GONE  /* the directory itself was removed, moved or unmounted */
};

/* `path` is lent; with INOTIFY_LOOK alone. */
typedef void inotify_fn(enum inotify_news news, const char *path, void *user);

/* NULL: `why` says why. */
struct inotify *inotify_open(inotify_fn *on_news, void *user,
                             struct problem *why);
void inotify_close(struct inotify *watches); /* NULL is allowed */

/* Readable when there are events. */
int inotify_fd(const struct inotify *watches);

/* The number of watched folders. */
unsigned inotify_count(const struct inotify *watches);

/* Watches the folder `path`, which is open as `fd`; "" is the directory itself.
 * If the folder has a watch already, notes its new path. False: `why` says why.
 */
bool inotify_add(struct inotify *watches, int fd, const char *path,
                 struct problem *why);

/* Call it before adding all folders again; inotify_end_round ends the watches
 * of those that were not added. */
void inotify_begin_round(struct inotify *watches);
void inotify_end_round(struct inotify *watches);

/* Reports all waiting events, without blocking. False: `why` says why. */
bool inotify_read(struct inotify *watches, struct problem *why);

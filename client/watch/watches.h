/*
 * watches.h - watches each folder by inotify, and reports their events.
 *
 * A watch belongs to a folder's inode and goes with it when that is moved; this
 * part keeps the path of each watch. An event only means "look at this path":
 * an outdated path costs a look.
 */
#ifndef CLIENT_WATCH_WATCHES_H
#define CLIENT_WATCH_WATCHES_H

#include <stdbool.h>

#include "proto/problem.h"

struct watches;

enum watches_news {
    WATCHES_LOOK, /* something happened to `path` */
    WATCHES_LOST, /* the kernel's queue ran over: look at everything */
    WATCHES_GONE  /* the directory itself was removed, moved or unmounted */
};

/* `path` is lent; with WATCHES_LOOK alone. */
typedef void watches_fn(enum watches_news news, const char *path, void *user);

/* NULL: `why` says why. */
struct watches *watches_open(watches_fn *on_news, void *user,
                             struct problem *why);
void watches_close(struct watches *watches); /* NULL is allowed */

/* Readable when there are events. */
int watches_fd(const struct watches *watches);

/* The number of watched folders. */
unsigned watches_count(const struct watches *watches);

/* Watches the folder `path`, which is open as `fd`; "" is the directory itself.
 * If the folder has a watch already, notes its new path. False: `why` says why.
 */
bool watches_add(struct watches *watches, int fd, const char *path,
                 struct problem *why);

/* True if a folder is watched under this path. */
bool watches_has(const struct watches *watches, const char *path);

/* Call it before adding all folders again; watches_end_round ends the watches
 * of those that were not added. */
void watches_begin_round(struct watches *watches);
void watches_end_round(struct watches *watches);

/* Reports all waiting events, without blocking. False: `why` says why. */
bool watches_read(struct watches *watches, struct problem *why);

#endif

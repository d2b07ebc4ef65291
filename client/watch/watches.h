/*
 * watches.h - inotify: a watch on each folder, and what they tell.
 *
 * A watch belongs to a folder's inode and goes with it when that is moved;
 * which path it stands for is known here. What a watch tells is only ever "look
 * at this path": a path that is out of date costs a look.
 */
#ifndef CLIENT_WATCH_WATCHES_H
#define CLIENT_WATCH_WATCHES_H

#include <stdbool.h>

#include "client/watch/trouble.h"

struct watches;

enum watches_news {
    WATCHES_LOOK, /* something happened to `path` */
    WATCHES_LOST, /* the kernel's queue ran over: to anything */
    WATCHES_GONE  /* the directory itself was removed, moved or unmounted */
};

/* `path` is lent; with WATCHES_LOOK alone. */
typedef void watches_fn(enum watches_news news, const char *path, void *user);

/* NULL: `why` says why. */
struct watches *watches_open(watches_fn *on_news, void *user,
                             struct trouble *why);
void watches_close(struct watches *watches); /* NULL is allowed */

/* Readable when there is something to tell. */
int watches_fd(const struct watches *watches);

/* How many folders are watched. */
unsigned watches_count(const struct watches *watches);

/* Watches the folder `path`, which is open as `fd`; "" is the directory itself.
 * Of a folder that is watched already, the path is noted. False: `why` says
 * why. */
bool watches_add(struct watches *watches, int fd, const char *path,
                 struct trouble *why);

/* Is a folder watched under this path? */
bool watches_has(const struct watches *watches, const char *path);

/* Before all folders are added again; watches_end_round ends the watches of
 * those that were not. */
void watches_begin_round(struct watches *watches);
void watches_end_round(struct watches *watches);

/* Tells all that is there, without waiting. False: `why` says why. */
bool watches_read(struct watches *watches, struct trouble *why);

#endif

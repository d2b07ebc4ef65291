/*
 * looks.h - looking at the directory, and telling of what differs from what was
 * posted: files that are new or have other content, and, by a sweep through the
 * ledger, those that are gone.
 *
 * Each returns false when the watch ends (watch.c).
 */
#ifndef CLIENT_WATCH_LOOKS_H
#define CLIENT_WATCH_LOOKS_H

#include <stdbool.h>

struct watch;

/* Only watches all folders, so that what changes from now on is heard. */
bool looks_at_folders(struct watch *w);

/* Everything. At the start, a directory without files is a trouble if some were
 * posted, unless that is allowed. */
bool looks_at_all(struct watch *w, bool is_start);

/* A path of which something was heard. */
bool looks_at(struct watch *w, const char *path);

#endif

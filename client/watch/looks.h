/*
 * looks.h - compares the directory with the ledger, and reports the
 * differences: files that are new or have other content, and, by a sweep
 * through the ledger, files that are gone.
 *
 * Each returns false when the watch ends (watch.c).
 */
#ifndef CLIENT_WATCH_LOOKS_H
#define CLIENT_WATCH_LOOKS_H

#include <stdbool.h>

struct watch;

/* Only watches all folders, so that later changes cause events. */
bool looks_at_folders(struct watch *w);

/* Looks at everything. At the start, a directory without files is a failure if
 * some were posted, unless the options allow it. */
bool looks_at_all(struct watch *w, bool is_start);

/* Looks at a path that had an event. */
bool looks_at(struct watch *w, const char *path);

#endif

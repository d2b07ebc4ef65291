/*
 * path_queue.h - the paths that had an event and that the watch still has to
 * look at: each once, in the order of their first events.
 *
 * Bounded: when it is full, its owner empties it and compares the whole disk
 * with the database, which finds the rest.
 */
#ifndef CLIENT_WATCH_PATH_QUEUE_H
#define CLIENT_WATCH_PATH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/map.h"
#include "client/watch/file_uri.h"

/* Bytes of paths, overhead included: some 100,000 paths. */
#define PATH_QUEUE_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct path_queue {
    struct map by_path;
    struct list paths;
    size_t bytes;
};

void path_queue_init(struct path_queue *dirty);
void path_queue_clear(struct path_queue *dirty);

/* False: full, or no memory; the path was not added. */
bool path_queue_add(struct path_queue *dirty, const char *path);

/* Takes the first one out; false: there is none. */
bool path_queue_take(struct path_queue *dirty,
                     char path[FILE_URI_PATH_MAX + 1]);

#endif

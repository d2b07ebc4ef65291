/*
 * path_queue.c - the paths that the watch still has to look at.
 */
#include "client/watch/path_queue.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that malloc and the map add to a path. */
#define OVERHEAD 96

struct path_queue_path {
    struct map_node node;
    struct list link;
    char path[];
};

void
path_queue_init(struct path_queue *dirty)
{
    *dirty = (struct path_queue){.bytes = 0};
    list_init(&dirty->paths);
}

bool
path_queue_add(struct path_queue *dirty, const char *path)
{
    struct map *map = &dirty->by_path;
    uint64_t hash = map_hash(map, slice_of(path));
    size_t size = strlen(path);
    struct path_queue_path *p;

    if (size > FILE_URI_PATH_MAX || dirty->bytes + size > PATH_QUEUE_BYTES_MAX)
        return false;
    map_each_same (p, map, hash, node)
        if (!strcmp(p->path, path))
            return true;
    p = malloc(sizeof(*p) + size + 1);
    if (!p)
        return false;
    memcpy(p->path, path, size + 1);
    map_add(map, &p->node, hash);
    list_append(&dirty->paths, &p->link);
    dirty->bytes += size + OVERHEAD;
    return true;
}

bool
path_queue_take(struct path_queue *dirty, char path[FILE_URI_PATH_MAX + 1])
{
    struct path_queue_path *p =
        list_take(&dirty->paths, offsetof(struct path_queue_path, link));

    if (!p)
        return false;
    strcpy(path, p->path);
    map_remove(&dirty->by_path, &p->node);
    dirty->bytes -= strlen(path) + OVERHEAD;
    free(p);
    return true;
}

void
path_queue_clear(struct path_queue *dirty)
{
    char path[FILE_URI_PATH_MAX + 1];

    while (path_queue_take(dirty, path))
        continue;
    map_fini(&dirty->by_path);
}

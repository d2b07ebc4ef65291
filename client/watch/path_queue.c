/*
 * path_queue.c - the paths that the watch still has to look at.
 */
#include "client/watch/path_queue.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that malloc and tsearch add to a path. */
#define OVERHEAD 96

struct path_queue_path {
    struct path_queue_path *next;
    char path[];
};

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct path_queue_path *)a)->path,
                  ((const struct path_queue_path *)b)->path);
}

void
path_queue_init(struct path_queue *dirty)
{
    *dirty = (struct path_queue){.by_path = NULL};
    dirty->end = &dirty->first;
}

/* Unlinks the first one. */
static struct path_queue_path *
pop_path(struct path_queue *dirty)
{
    struct path_queue_path *p = dirty->first;

    if (!p)
        return NULL;
    dirty->first = p->next;
    if (!dirty->first)
        dirty->end = &dirty->first;
    dirty->bytes -= strlen(p->path) + OVERHEAD;
    tdelete(p, &dirty->by_path, by_path);
    return p;
}

void
path_queue_clear(struct path_queue *dirty)
{
    struct path_queue_path *p;

    while ((p = pop_path(dirty)))
        free(p);
}

bool
path_queue_add(struct path_queue *dirty, const char *path)
{
    size_t size = strlen(path);
    struct path_queue_path *p;
    struct path_queue_path **found;

    if (size > FILE_URI_PATH_MAX || dirty->bytes + size > PATH_QUEUE_BYTES_MAX)
        return false;
    p = malloc(sizeof(*p) + size + 1);
    if (!p)
        return false;
    p->next = NULL;
    memcpy(p->path, path, size + 1);
    found = tsearch(p, &dirty->by_path, by_path);
    if (!found || *found != p) {
        free(p);
        return found != NULL;
    }
    *dirty->end = p;
    dirty->end = &p->next;
    dirty->bytes += size + OVERHEAD;
    return true;
}

bool
path_queue_take(struct path_queue *dirty, char path[FILE_URI_PATH_MAX + 1])
{
    struct path_queue_path *p = pop_path(dirty);

    if (!p)
        return false;
    strcpy(path, p->path);
    free(p);
    return true;
}

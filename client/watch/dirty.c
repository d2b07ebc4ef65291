/*
 * dirty.c - the paths that the watch still has to look at.
 */
#include "client/watch/dirty.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that malloc and tsearch add to a path. */
#define OVERHEAD 96

struct dirty_path {
    struct dirty_path *next;
    char path[];
};

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct dirty_path *)a)->path,
                  ((const struct dirty_path *)b)->path);
}

void
dirty_init(struct dirty *dirty)
{
    *dirty = (struct dirty){.by_path = NULL};
    dirty->end = &dirty->first;
}

/* Unlinks the first one. */
static struct dirty_path *
pop(struct dirty *dirty)
{
    struct dirty_path *p = dirty->first;

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
dirty_clear(struct dirty *dirty)
{
    struct dirty_path *p;

    while ((p = pop(dirty)))
        free(p);
}

bool
dirty_add(struct dirty *dirty, const char *path)
{
    size_t size = strlen(path);
    struct dirty_path *p;
    struct dirty_path **found;

    if (size > LOCS_PATH_MAX || dirty->bytes + size > DIRTY_BYTES_MAX)
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
dirty_take(struct dirty *dirty, char path[LOCS_PATH_MAX + 1])
{
    struct dirty_path *p = pop(dirty);

    if (!p)
        return false;
    strcpy(path, p->path);
    free(p);
    return true;
}

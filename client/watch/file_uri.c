/*
 * file_uri.c - chooses the published files, and writes their URIs.
 */
#include "client/watch/file_uri.h"

#include <ctype.h>
#include <fnmatch.h>

#include "proto/uri.h"

const char *
file_uri_fault(const char *base)
{
    const char *host;

    if (!strncmp(base, "http://", 7))
        host = base + 7;
    else if (!strncmp(base, "https://", 8))
        host = base + 8;
    else
        return "is no absolute URI with http or https";
    if (*host != '[' && !isalnum((unsigned char)*host))
        return "has no host";
    for (const char *p = base; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f ||
            strchr("\"<>\\^`{|}", *p))
            return "has a character that must be percent-encoded";
    if (strpbrk(base, "?#"))
        return "has a query or a fragment";
    if (base[strlen(base) - 1] != '/')
        return "has no \"/\" at its end, behind which the files' names stand";
    if (strlen(base) > FILE_URI_MAX / 2)
        return "is longer than 1,024 bytes";
    return NULL;
}

bool
file_uri_write(char to[FILE_URI_MAX + 1], const char *base, const char *path)
{
    struct buf uri;
    char encoded[3];

    buf_init_fixed(&uri, to, FILE_URI_MAX);
    buf_add_text(&uri, base);
    for (; *path; path++)
        if (*path == '/')
            BUF_ADD(&uri, "/");
        else
            buf_add(&uri, encoded,
                    uri_encode((struct slice){path, 1}, encoded));
    to[uri.size] = '\0';
    return !uri.failed && uri.size >= FILE_URI_MIN;
}

bool
file_uri_is_excluded(const char *const *globs, size_t n_globs, const char *path)
{
    char upto[FILE_URI_PATH_MAX + 1];
    size_t size = strlen(path);
    size_t name = 0; /* where the last name of `upto` begins */

    if (size > FILE_URI_PATH_MAX)
        return true;
    memcpy(upto, path, size + 1);
    for (;;) {
        size_t end = name + strcspn(path + name, "/");

        upto[end] = '\0';
        if (!strcmp(upto + name, FILE_URI_STATE_NAME))
            return true;
        for (size_t i = 0; i < n_globs; i++)
            if (!fnmatch(globs[i], upto + name, 0) ||
                !fnmatch(globs[i], upto, FNM_PATHNAME))
                return true;
        if (!path[end])
            return false;
        upto[end] = '/';
        name = end + 1;
    }
}

/*
 * The paths that the watch still has to look at.
 */

/* Bytes that malloc and the map add to a path. */
#define OVERHEAD 96

struct path_queue_path {
    struct map_node node;
    struct list link;
    char path[];
};

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

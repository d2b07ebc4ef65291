#include "client/mirror/directory_list.h"

#include <stdlib.h>
#include <string.h>

static int
compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The size without the last name and the slash before it. */
static size_t
size_above(const char *path, size_t size)
{
    while (size > 0 && path[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

static bool
add_directory(struct directory_list *d, const char *path, size_t size)
{
    char **more;

    /* Doubled at each power of two. */
    if (!(d->n & (d->n - 1))) {
        more = realloc(d->all, (d->n ? 2 * d->n : 1) * sizeof(*more));
        if (!more)
            return false;
        d->all = more;
    }
    d->all[d->n] = strndup(path, size);
    if (!d->all[d->n])
        return false;
    d->n++;
    return true;
}

/* Neighbours share their directories: compares with the last one. */
static bool
is_that_of_the_last(const struct directory_list *d, const char *path,
                    size_t size)
{
    return d->n > 0 && strlen(d->all[d->last]) == size &&
           !memcmp(d->all[d->last], path, size);
}

bool
directory_list_add(struct directory_list *d, const char *path)
{
    size_t size = size_above(path, strlen(path));
    size_t first = d->n;

    if (is_that_of_the_last(d, path, size))
        return true;
    for (; size > 0; size = size_above(path, size))
        if (!add_directory(d, path, size))
            return false;
    if (!add_directory(d, "", 0))
        return false;
    d->last = first;
    return true;
}

void
directory_list_sort(struct directory_list *d)
{
    size_t n = 0;

    if (d->n > 0)
        qsort(d->all, d->n, sizeof(*d->all), compare_paths);
    for (size_t i = 0; i < d->n; i++)
        if (n > 0 && !strcmp(d->all[n - 1], d->all[i]))
            free(d->all[i]);
        else
            d->all[n++] = d->all[i];
    d->n = n;
    d->last = 0;
}

void
directory_list_clear(struct directory_list *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->all[i]);
    free(d->all);
    *d = (struct directory_list){NULL, 0, 0};
}

#include "base/path_pattern.h"

#include <assert.h>

/* True if the path ends in another way than the pattern behind its last hole.
 * Most paths of a table differ there from each other, and not in their first
 * bytes. */
static bool
has_other_end(const char *pattern, struct slice path)
{
    size_t size = strlen(pattern);

    for (; size && path.size && pattern[size - 1] != '}'; size--, path.size--)
        if (path.data[path.size - 1] != pattern[size - 1])
            return true;
    return false;
}

bool
path_pattern_match(const char *pattern, struct slice path,
                   struct slice holes[PATH_HOLES_MAX])
{
    unsigned n_holes = 0;

    if (has_other_end(pattern, path))
        return false;
    memset(holes, 0, PATH_HOLES_MAX * sizeof(*holes));
    while (*pattern) {
        size_t size = 1;

        if (*pattern == '{') {
            bool may_be_empty = !strcmp(pattern, "{page}");

            bool is_rest =
                !strcmp(pattern, "{uri}") || !strcmp(pattern, "{tile}");

            size = is_rest ? path.size : 0;
            pattern += strcspn(pattern, "}") + 1;
            /* Up to the character behind the hole, or the NUL. */
            while (size < path.size && path.data[size] != '/' &&
                   path.data[size] != *pattern)
                size++;
            if (size == 0 && !may_be_empty)
                return false;
            assert(n_holes < PATH_HOLES_MAX);
            holes[n_holes++] = (struct slice){path.data, size};
        } else if (path.size == 0 || *path.data != *pattern++) {
            return false;
        }
        slice_skip(&path, size);
    }
    return path.size == 0;
}

#include <stdlib.h>

#include "client/mirror/resource_path.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/mirror/unpath.h"

/* Any resource has a path that stays inside, belongs only to that URI, and is
 * the same each time. */
FUZZ_TARGET(paths, loc)
{
    char path[RESOURCE_PATH_MAX + 1];
    char again[RESOURCE_PATH_MAX + 1];
    char back[RESOURCE_PATH_MAX + 20];

    resource_path_write(path, loc);
    FUZZ_ASSERT(strlen(path) <= RESOURCE_PATH_MAX);
    FUZZ_ASSERT(unpath_is_sound(path));
    if (unpath(back, path)) {
        FUZZ_ASSERT(slice_is(loc, back));
        resource_path_write(again, slice_of(back));
        FUZZ_ASSERT(!strcmp(path, again));
    }
}

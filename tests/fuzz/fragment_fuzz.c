#include "proto/resourcesync/fragment.h"

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/json.h"
#include "tests/fuzz/fuzz.h"

/* The JSON of a change that fragment_read accepts is one line. */
static void
read_whole(struct slice text)
{
    struct entry entry;
    struct buf json;

    entry_init(&entry);
    buf_init(&json, SIZE_MAX);
    if (!fragment_read(&entry, text)) {
        FUZZ_ASSERT(entry.change.loc.size > 0 && entry.change.seq > 0);
        json_change(&json, &entry.change);
        FUZZ_ASSERT(!json.failed && json.data[json.size - 1] == '}');
        FUZZ_ASSERT(!memchr(json.data, '\n', json.size));
    }
    entry_fini(&entry);
    buf_fini(&json);
}

/* The broker reads fragments from the disk: a fragment that it recognises, and
 * all parts of it, lie within the bytes of the file. */
FUZZ_TARGET(fragment, text)
{
    struct fragment_view view;
    struct buf resource;

    read_whole(text);
    if (fragment_view(text, &view))
        return;
    FUZZ_ASSERT(view.size <= text.size && text.data[view.size - 1] == '\n');
    FUZZ_ASSERT(view.loc.data > text.data);
    FUZZ_ASSERT(view.loc.data + view.loc.size < text.data + view.size);
    FUZZ_ASSERT(view.stamp < view.size);
    FUZZ_ASSERT(fragment_time(text.data, view.stamp) == view.us);
    buf_init(&resource, FRAGMENT_MAX);
    text.size = view.size;
    fragment_resource(&resource, text, view.stamp);
    FUZZ_ASSERT(!resource.failed && resource.size < view.size);
    FUZZ_ASSERT(resource.data[resource.size - 1] == '\n');
    buf_fini(&resource);
}

#include "proto/resourcesync/fragment.h"

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/json.h"
#include "tests/fuzz/fuzz.h"

/* The JSON of a change that fragment_read accepts is one line, and the same by
 * json_fragment. */
static void
read_whole(struct slice text)
{
    struct entry entry;
    struct buf json, direct;
    bool is_direct;

    entry_init(&entry);
    buf_init(&json, SIZE_MAX);
    buf_init(&direct, SIZE_MAX);
    is_direct = json_fragment(&direct, text);
    FUZZ_ASSERT(is_direct || direct.size == 0);
    if (!fragment_read(&entry, text)) {
        FUZZ_ASSERT(entry.change.loc.size > 0 && entry.change.seq > 0);
        json_change(&json, &entry.change);
        FUZZ_ASSERT(!json.failed && json.data[json.size - 1] == '}');
        FUZZ_ASSERT(!memchr(json.data, '\n', json.size));
        FUZZ_ASSERT(!is_direct ||
                    slice_equal(buf_slice(&direct), buf_slice(&json)));
    }
    entry_fini(&entry);
    buf_fini(&direct);
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

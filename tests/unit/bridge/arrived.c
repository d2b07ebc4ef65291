#include "tests/unit/bridge/arrived.h"

#include <string.h>

#include "broker/log/log.h"
#include "tests/test.h"

uint64_t
arrived_last(struct sets *s, const char *set)
{
    struct head head;

    return registry_find(s->registry, slice_of(set), &head) ? head.last : 0;
}

static void
add_locs(struct buf *to, struct slice fragments)
{
    static const char loc[] = "<loc>http://example.com/";

    while (fragments.size > 0) {
        const char *at =
            memmem(fragments.data, fragments.size, loc, sizeof(loc) - 1);
        struct slice rest;

        if (!at)
            return;
        at += sizeof(loc) - 1;
        rest =
            (struct slice){at, fragments.size - (size_t)(at - fragments.data)};
        if (to->size > 0)
            BUF_ADD(to, " ");
        buf_add_slice(to, slice_take(&rest, '<'));
        fragments = rest;
    }
}

void
arrived_assert(struct sets *s, const char *name, const char *words)
{
    struct set *set = sets_find(s, name);
    struct buf text;
    uint64_t after = 0;

    buf_init(&text, SIZE_MAX);
    for (;;) {
        struct batch *b = NULL;

        assert_int_equal(
            log_read(s->registry->log, set->log, after, LOG_DISK, &b, NULL),
            STATUS_OK);
        if (!b)
            break;
        add_locs(&text, batch_slice(b, after, b->last));
        after = b->last;
        batch_unref(b);
    }
    buf_add(&text, "", 1);
    assert_string_equal(text.data, words);
    buf_fini(&text);
}

#include "tests/support/stamped.h"

#include <stdlib.h>

#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

struct change
stamped_sample(void)
{
    struct change change;

    change_init(&change);
    change.loc = SLICE("http://example.com/a?b=1&c=<2>");
    change.kind = CHANGE_CREATED;
    return change;
}

char *
stamped_text(const struct change *change, int64_t us, uint64_t seq)
{
    struct buf b;
    struct fragment f;
    char *text;
    size_t size;

    buf_init(&b, FRAGMENT_MAX);
    assert_int_equal(fragment_write(&b, change, &f, NULL), 0);
    assert_int_equal(f.size, b.size);
    text = malloc(f.size + FRAGMENT_STAMP_MAX + 1);
    assert_non_null(text);
    size = fragment_stamp(text, b.data, &f, us, seq);
    assert_true(size <= f.size + FRAGMENT_STAMP_MAX);
    text[size] = '\0';
    buf_fini(&b);
    return text;
}

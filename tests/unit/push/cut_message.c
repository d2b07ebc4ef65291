#include "tests/unit/push/cut_message.h"

#include <stdlib.h>

#include "tests/test.h"

struct message
cut_message(struct slice text, size_t piece)
{
    struct message m = {
        .last = 7,
        .size = text.size,
        .covered = {.epoch = "0123456789abcdef",
                    .last = 7,
                    .now_us = DATETIME_NONE},
        .slices = malloc((text.size / piece + 2) * sizeof(*m.slices)),
    };

    assert_non_null(m.slices);
    while (text.size > 0) {
        size_t size = text.size < piece ? text.size : piece;

        m.slices[m.n_slices++] = (struct slice){text.data, size};
        text.data += size;
        text.size -= size;
    }
    m.slices[m.n_slices++] = (struct slice){"", 0};
    return m;
}

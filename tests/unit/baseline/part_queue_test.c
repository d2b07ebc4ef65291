/*
 * part_queue_test.c - the parts of an index, each read once.
 */
#include "client/baseline/part_queue.h"

#include <stdio.h>

#include "tests/test.h"

#define PARTS 5000U

/* Of so many, some have the same slot: none is taken for another. */
TEST(tells_many_parts_from_each_other)
{
    const struct part like = {.depth = 1};
    struct parts parts = {.n = 0};
    char url[40];
    bool is_new;

    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < PARTS; i++) {
            snprintf(url, sizeof(url), "http://e.org/%u.xml", i);
            assert_int_equal(baseline_parts_add(&parts, &like, slice_of(url),
                                                SLICE(""), &is_new),
                             STATUS_OK);
            assert_int_equal(is_new, round == 0);
        }
    for (unsigned i = 0; i < PARTS; i++) {
        snprintf(url, sizeof(url), "http://e.org/%u.xml", i);
        assert_string_equal(baseline_parts_first(&parts)->url, url);
        parts.next++;
    }
    assert_null(baseline_parts_first(&parts));
    baseline_parts_fini(&parts);
}

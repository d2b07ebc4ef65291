/*
 * duplicate_links_test.c - duplicates, into the database and back.
 */
#include <string.h>

#include "client/mirror/file_sync.h"
#include "proto/resourcesync/change.h"
#include "tests/test.h"

#define MD5 "md5:0123456789abcdef0123456789abcdef"

/* duplicates with all their attributes; other links do not count. */
TEST(keeps_duplicates_and_nothing_else)
{
    const struct td_link links[] = {
        {.rel = "memento", .href = "http://m/1", .length = UINT64_MAX},
        {.rel = "describedby", .href = "http://a/meta", .length = UINT64_MAX},
        {.rel = "duplicate", .href = "http://b/x", .length = UINT64_MAX},
        {.rel = "alternate duplicate",
         .href = "http://c/x",
         .pri = 2,
         .length = 17,
         .hash = MD5},
        {.rel = "duplicate", .href = "http://d/x y", .length = UINT64_MAX},
        {.rel = "duplicate",
         .href = "http://e/x",
         .pri = 999999,
         .length = 0,
         .hash = "crc:1"},
    };
    const struct td_change change = {.links = links, .n_links = 6};
    struct downloads_link link;
    struct slice rest;
    struct buf text;

    buf_init(&text, 10000);
    duplicate_links_write(&text, &change, "duplicate");
    assert_false(text.failed);
    rest = buf_slice(&text);

    assert_true(duplicate_links_next(&rest, &link));
    assert_true(slice_is(link.href, "http://b/x"));
    assert_int_equal(link.pri, 0);
    assert_true(link.length == LENGTH_NONE);
    assert_int_equal(link.hash.size, 0);
    assert_true(duplicate_links_next(&rest, &link));
    assert_true(slice_is(link.href, "http://c/x"));
    assert_int_equal(link.pri, 2);
    assert_int_equal(link.length, 17);
    assert_true(slice_is(link.hash, MD5));
    assert_true(duplicate_links_next(&rest, &link));
    assert_true(slice_is(link.href, "http://e/x"));
    assert_int_equal(link.pri, 999999);
    assert_int_equal(link.length, 0);
    assert_int_equal(link.hash.size, 0);
    assert_false(duplicate_links_next(&rest, &link));

    /* of a past time, mementos. */
    buf_clear(&text);
    duplicate_links_write(&text, &change, "memento");
    rest = buf_slice(&text);
    assert_true(duplicate_links_next(&rest, &link));
    assert_true(slice_is(link.href, "http://m/1"));
    assert_false(duplicate_links_next(&rest, &link));
    buf_fini(&text);
}

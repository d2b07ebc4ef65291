#include "proto/buf.h"

#include <stdlib.h>

#include "tests/test.h"

static void
assert_holds(const struct buf *b, const char *text)
{
    assert_true(slice_is(buf_slice(b), text));
}

TEST(puts_pieces_one_after_the_other)
{
    struct buf b;

    buf_init(&b, 1000);
    BUF_ADD(&b, "a");
    buf_add_text(&b, "b");
    buf_add_slice(&b, SLICE("c"));
    buf_add_slice(&b, (struct slice){NULL, 0});
    buf_add_number(&b, 0);
    buf_add_number(&b, UINT64_MAX);
    buf_add_format(&b, "<%d>", 42);
    buf_add_hex(&b, (const uint8_t *)"\x00\xfe", 2);

    assert_false(b.failed);
    assert_holds(&b, "abc018446744073709551615<42>00fe");
    buf_fini(&b);
}

TEST(never_grows_over_its_maximum)
{
    struct buf b;

    buf_init(&b, 3);
    BUF_ADD(&b, "ab");
    BUF_ADD(&b, "cd");
    BUF_ADD(&b, "e");

    assert_true(b.failed);
    assert_holds(&b, "ab");
    assert_null(buf_room(&b, 1));

    buf_clear(&b);
    buf_add_format(&b, "%s", "xyz");
    assert_false(b.failed);
    assert_holds(&b, "xyz");
    assert_int_equal(b.capacity, 3);
    buf_add_format(&b, "%s", "z");
    assert_true(b.failed);
    buf_fini(&b);
}

TEST(gives_room_that_the_caller_fills)
{
    struct buf b;
    char *room;

    buf_init(&b, SIZE_MAX);
    room = buf_room(&b, 5000);
    assert_non_null(room);
    memset(room, 'x', 5000);
    b.size += 5000;
    BUF_ADD(&b, "y");

    assert_int_equal(b.size, 5001);
    assert_null(buf_room(&b, SIZE_MAX - 5000));
    assert_true(b.failed);
    buf_fini(&b);
}

TEST(gives_large_memory_back_to_others)
{
    struct buf b;

    buf_init(&b, SIZE_MAX);
    BUF_ADD(&b, "small");
    buf_clear_large(&b, 16384);
    assert_int_equal(b.size, 0);
    assert_non_null(b.data);

    assert_non_null(buf_room(&b, 100000));
    buf_clear_large(&b, 16384);
    assert_null(b.data);
    assert_int_equal(b.capacity, 0);
    BUF_ADD(&b, "again");
    assert_holds(&b, "again");
    buf_fini(&b);
}

#include "proto/resourcesync/position.h"

#include "tests/test.h"

TEST(reads_what_it_wrote)
{
    char text[POSITION_MAX];
    struct position p;
    size_t size = position_write(text, "0123456789abcdef", UINT64_MAX);

    assert_string_equal(text, "0123456789abcdef-18446744073709551615");
    assert_int_equal(size, POSITION_MAX - 1);
    assert_int_equal(position_read(slice_of(text), &p), 0);
    assert_string_equal(p.epoch, "0123456789abcdef");
    assert_true(p.seq == UINT64_MAX);
}

TEST(reads_a_plain_number)
{
    struct position p;

    assert_int_equal(position_read(SLICE("0"), &p), 0);
    assert_string_equal(p.epoch, "");
    assert_int_equal(p.seq, 0);
    assert_int_equal(position_read(SLICE("12345678901234567890"), &p), 0);
    assert_string_equal(p.epoch, "");
}

/* */
TEST(refuses_everything_else)
{
    static const char *const bad[] = {
        "",
        "-1",
        "+1",
        "1 ",
        "a",
        "0123456789abcdef",
        "0123456789abcdef-",
        "0123456789abcdef--1",
        "0123456789ABCDEF-1",
        "0123456789abcdeg-1",
        "0123456789abcde-1",
        "0123456789abcdef0-1",
        "18446744073709551616",
        "000000000000000000001",
        "0123456789abcdef-18446744073709551616",
    };
    struct position p;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(position_read(slice_of(bad[i]), &p), STATUS_MALFORMED);
}

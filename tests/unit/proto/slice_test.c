#include "proto/slice.h"

#include <stdbool.h>

#include "tests/test.h"

static const struct slice nothing = {NULL, 0};

TEST(words_are_alike_in_any_case)
{
    assert_true(slice_is_word(SLICE("GZip"), "gzip"));
    assert_true(slice_is_word(nothing, ""));
    assert_false(slice_is_word(nothing, "gzip"));
    assert_false(slice_is_word(SLICE("gzi"), "gzip"));
    assert_false(slice_is_word(SLICE("gzip "), "gzip"));
}

/* RFC 9110 section 5.6.3: blanks and tabs, and nothing else. */
TEST(white_space_around_a_part_goes)
{
    assert_true(slice_is(slice_trimmed(SLICE(" \ta b\t ")), "a b"));
    assert_true(slice_is(slice_trimmed(SLICE("\na\r")), "\na\r"));
    assert_int_equal(slice_trimmed(SLICE(" \t ")).size, 0);
    assert_int_equal(slice_trimmed(nothing).size, 0);
}

TEST(parts_are_taken_off_the_front)
{
    struct slice rest = SLICE("a;;b");

    assert_true(slice_is(slice_take(&rest, ';'), "a"));
    assert_true(slice_is(slice_take(&rest, ';'), ""));
    assert_true(slice_is(rest, "b"));
    assert_true(slice_is(slice_take(&rest, ';'), "b"));
    assert_int_equal(rest.size, 0);
    assert_int_equal(slice_take(&rest, ';').size, 0);
    rest = nothing;
    assert_int_equal(slice_take(&rest, ';').size, 0);
    rest = SLICE("a;");
    assert_true(slice_is(slice_take(&rest, ';'), "a"));
    assert_int_equal(rest.size, 0);
}

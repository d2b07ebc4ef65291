#include "proto/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

static const struct slice nothing = {NULL, 0};

static void
words_are_alike_in_any_case(void **state)
{
    (void)state;
    assert_true(slice_is_word(SLICE("GZip"), "gzip"));
    assert_true(slice_is_word(nothing, ""));
    assert_false(slice_is_word(nothing, "gzip"));
    assert_false(slice_is_word(SLICE("gzi"), "gzip"));
    assert_false(slice_is_word(SLICE("gzip "), "gzip"));
}

/* RFC 9110 section 5.6.3: blanks and tabs, and nothing else. */
static void
white_space_around_a_part_goes(void **state)
{
    (void)state;
    assert_true(slice_is(slice_trimmed(SLICE(" \ta b\t ")), "a b"));
    assert_true(slice_is(slice_trimmed(SLICE("\na\r")), "\na\r"));
    assert_int_equal(slice_trimmed(SLICE(" \t ")).size, 0);
    assert_int_equal(slice_trimmed(nothing).size, 0);
}

static void
parts_are_taken_off_the_front(void **state)
{
    struct slice rest = SLICE("a;;b");

    (void)state;
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_alike_in_any_case),
        cmocka_unit_test(white_space_around_a_part_goes),
        cmocka_unit_test(parts_are_taken_off_the_front),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "proto/position.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
reads_what_it_wrote(void **state)
{
    char text[POSITION_MAX];
    struct position p;
    size_t size = position_write(text, "0123456789abcdef", UINT64_MAX);

    (void)state;
    assert_string_equal(text, "0123456789abcdef-18446744073709551615");
    assert_int_equal(size, POSITION_MAX - 1);
    assert_int_equal(position_read(slice_of(text), &p), 0);
    assert_string_equal(p.epoch, "0123456789abcdef");
    assert_true(p.seq == UINT64_MAX);
}

static void
reads_a_plain_number(void **state)
{
    struct position p;

    (void)state;
    assert_int_equal(position_read(SLICE("0"), &p), 0);
    assert_string_equal(p.epoch, "");
    assert_int_equal(p.seq, 0);
    assert_int_equal(position_read(SLICE("12345678901234567890"), &p), 0);
    assert_string_equal(p.epoch, "");
}

/* */
static void
refuses_everything_else(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(position_read(slice_of(bad[i]), &p), STATUS_MALFORMED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_wrote),
        cmocka_unit_test(reads_a_plain_number),
        cmocka_unit_test(refuses_everything_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * place_test.c - places in a history, as positions state them.
 */
#include "client/source/source_position.h"

#include "tests/test.h"

static void
comes_back(const char *text)
{
    char again[TD_POSITION_SIZE];
    struct source_position place;

    assert_int_equal(source_position_read(slice_of(text), &place), STATUS_OK);
    source_position_write(again, &place);
    assert_string_equal(again, text);
}

TEST(what_is_written_is_read_again)
{
    comes_back("0");
    comes_back("17");
    comes_back("0123456789abcdef-17");
    comes_back("0123456789abcdef-18446744073709551615");
    comes_back("@2026-11-20T21:00:00.000000Z+3");
    comes_back("@1970-01-01T00:00:00.000001Z+18446744073709551615");
    comes_back("@2026-11-20T21:00:00.000000Z+3~0123456789abcdef");
    comes_back("@2026-11-20T21:00:00.000000Z+3!1767225600500000");
    comes_back("@2026-11-20T21:00:00.000000Z+12345678901~0123456789abcdef/"
               "fedcba9876543210:12345678901:0123456789abcdef:w"
               "!1767225600500000");
    comes_back("@-+0");
    comes_back("@-+0/0123456789abcdef:0:0000000000000000");
    comes_back("@2026-11-20T21:00:00.000000Z+18446744073709551615"
               "~0123456789abcdef/fedcba9876543210:18446744073709551615"
               ":0123456789abcdef:w");
}

/* Without a list it is found by time: if its mark is an old one, with a doubt.
 */
TEST(a_place_without_a_list_may_be_old)
{
    static const struct {
        const char *text;
        bool is_old;
    } rows[] = {
        {"@2026-11-20T21:00:00Z+0", false},
        {"@2026-11-20T21:00:00Z+3~0123456789abcdef", true},
        {"@2026-11-20T21:00:00Z+3~0123456789abcdef/"
         "0123456789abcdef:3:0123456789abcdef",
         false},
        {"0123456789abcdef-17", false},
    };
    struct source_position place;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(source_position_read(slice_of(rows[i].text), &place),
                         STATUS_OK);
        assert_int_equal(source_position_is_old(&place), rows[i].is_old);
    }
}

TEST(a_place_of_a_log_has_an_epoch_and_a_seq)
{
    struct source_position place;

    assert_int_equal(source_position_read(SLICE("0123456789abcdef-17"), &place),
                     0);
    assert_false(place.is_time);
    assert_string_equal(place.at.epoch, "0123456789abcdef");
    assert_int_equal(place.at.seq, 17);

    assert_int_equal(source_position_read(SLICE("0"), &place), 0);
    assert_false(place.is_time);
    assert_string_equal(place.at.epoch, "");
    assert_int_equal(place.at.seq, 0);
}

TEST(a_time_may_come_without_a_count_and_without_decimals)
{
    struct source_position place;

    assert_int_equal(
        source_position_read(SLICE("@1970-01-01T00:00:02Z"), &place), 0);
    assert_true(place.is_time);
    assert_int_equal(place.time_us, 2000000);
    assert_int_equal(place.n_at, 0);
}

TEST(what_is_no_place_is_refused_and_changes_nothing)
{
    static const char *const bad[] = {
        "",
        "@",
        "-1",
        "now",
        "0123456789abcdeg-17",
        "0123456789abcdef-",
        "0123456789abcdef-17 ",
        "@2026-11-20",
        "@2026-11-20T21:00:00.000000Z+",
        "@2026-11-20T21:00:00.000000Z+x",
        "@2026-11-20T21:00:00.000000Z+~0123456789abcdef",
        "@2026-11-20T21:00:00.000000Z+1~0123456789abcde",
        "@2026-11-20T21:00:00.000000Z+1~0123456789abcdeg",
        "@2026-11-20T21:00:00.000000Z+1~0123456789ABCDEF",
        "@2026-11-20T21:00:00.000000Z~0123456789abcdef",
        "@2026-11-20T21:00:00.000000Z+18446744073709551616",
        "@2026-11-20T21:00:00+01:00",
        "@2026-11-20T21:00:00-01:00",
        "@2026-02-30T21:00:00Z+1",
        "@+1",
        "@2026-11-20T21:00:00Z+1!",
        "@2026-11-20T21:00:00Z+1!now",
        "@2026-11-20T21:00:00Z+1!18446744073709551615",
        "@2026-11-20T21:00:00Z+1/",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef:1",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef:1:0123456789abcde",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef::0123456789abcdef",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef:1:0123456789abcdef:v",
        "@2026-11-20T21:00:00Z+1/0123456789abcdef:1:0123456789abcdef:w:",
    };
    struct source_position place = {.n_at = 42};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(source_position_read(slice_of(bad[i]), &place),
                         STATUS_MALFORMED);
    assert_int_equal(place.n_at, 42);
}

#include "proto/datetime.h"

#include <stdio.h>
#include <time.h>

#include "tests/test.h"

static void
assert_time(const char *text, const char *complete)
{
    char written[DATETIME_SIZE];
    int64_t us = 0;

    assert_int_equal(datetime_read(slice_of(text), &us), STATUS_OK);
    datetime_write(written, us);
    assert_memory_equal(written, complete, DATETIME_SIZE);
}

/* */
TEST(reads_any_complete_time_as_utc)
{
    assert_time("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z");
    assert_time("2000-02-29T23:59:59.5Z", "2000-02-29T23:59:59.500000Z");
    assert_time("2026-04-05T12:00:00+02:00", "2026-04-05T10:00:00.000000Z");
    assert_time("2025-12-31T23:30:00-00:45", "2026-01-01T00:15:00.000000Z");
    assert_time("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000Z");
    assert_time("9999-12-31T23:59:59.999999999Z",
                "9999-12-31T23:59:59.999999Z");
    assert_time("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z");
    assert_time("2026-04-05T10:00:00.123456789Z",
                "2026-04-05T10:00:00.123456Z");
}

/* */
TEST(refuses_what_names_no_moment)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-04-05",
        "2026-04-05T10:00Z",
        "2026-04-05T10:00:00",
        "2026-02-30T10:00:00Z",
        "1900-02-29T10:00:00Z",
        "2026-13-01T10:00:00Z",
        "2026-00-01T10:00:00Z",
        "2026-01-00T10:00:00Z",
        "2026-04-05T24:00:00Z",
        "2026-04-05T10:60:00Z",
        "2026-04-05T10:00:60Z",
        "2026-04-05T10:00:00.Z",
        "2026-04-05T10:00:00,5Z",
        "2026-04-05t10:00:00Z",
        "2026-04-05T10:00:00z",
        "2026-04-05 10:00:00Z",
        "2026-04-05T10:00:00Z ",
        " 2026-04-05T10:00:00Z",
        "2026-04-05T10:00:00+0200",
        "2026-04-05T10:00:00+14:01",
        "2026-04-05T10:00:00+02:60",
        "2026-04-05T10:00:00+02",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "-001-04-05T10:00:00Z",
        "12026-04-05T10:00:00Z",
    };
    int64_t us = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (!datetime_read(slice_of(bad[i]), &us))
            fail_msg("accepted \"%s\"", bad[i]);
    assert_int_equal(us, 42);
}

TEST(reads_the_shorter_forms_as_their_first_moment)
{
    static const struct {
        const char *text;
        const char *same;
    } forms[] = {
        {"2026", "2026-01-01T00:00:00Z"},
        {"2026-04", "2026-04-01T00:00:00Z"},
        {"2026-04-05", "2026-04-05T00:00:00Z"},
        {"2026-04-05T10:30Z", "2026-04-05T10:30:00Z"},
        {"2026-04-05T10:30+02:00", "2026-04-05T08:30:00Z"},
        {"2026-04-05T10:30:01Z", "2026-04-05T10:30:01Z"},
    };

    int64_t a = 1;
    int64_t b = 2;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        assert_int_equal(datetime_read_any(slice_of(forms[i].text), &a), 0);
        assert_int_equal(datetime_read(slice_of(forms[i].same), &b), 0);
        assert_int_equal(a, b);
    }
    assert_int_equal(datetime_read_any(SLICE("2026-"), &a), STATUS_INVALID);
    assert_int_equal(datetime_read_any(SLICE("2026-04-05T10Z"), &a),
                     STATUS_INVALID);
    assert_int_equal(datetime_read_any(SLICE("2026-04-05T10:30"), &a),
                     STATUS_INVALID);
}

static void
assert_short(int64_t us, const char *text)
{
    char written[DATETIME_SIZE + 1];

    written[datetime_write_short(written, us)] = '\0';
    assert_string_equal(written, text);
}

TEST(writes_no_more_decimals_than_needed)
{
    assert_short(0, "1970-01-01T00:00:00Z");
    assert_short(INT64_C(1200000000), "1970-01-01T00:20:00Z");
    assert_short(1, "1970-01-01T00:00:00.000001Z");
    assert_short(120000, "1970-01-01T00:00:00.12Z");
    assert_short(-1, "1969-12-31T23:59:59.999999Z");
}

/* The C library knows the calendar too. It repeats itself every 146,097 days:
 * steps of 11 days meet each day of that once in 11 rounds. */
TEST(agrees_with_the_calendar_on_every_day)
{
    for (int64_t day = -719528; day < 2932897; day += 11) {
        time_t seconds = (time_t)(day * 86400 + 3723);
        char expected[64];
        char written[DATETIME_SIZE];
        struct tm tm;
        int64_t us;

        gmtime_r(&seconds, &tm);
        snprintf(expected, sizeof(expected), "%04d-%02d-%02dT01:02:03.000004Z",
                 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
        datetime_write(written, day * INT64_C(86400000000) + 3723000004);
        assert_memory_equal(written, expected, DATETIME_SIZE);
        assert_int_equal(
            datetime_read((struct slice){written, DATETIME_SIZE}, &us), 0);
        assert_true(us == day * INT64_C(86400000000) + 3723000004);
    }
}

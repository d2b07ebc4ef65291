#include "proto/datetime.h"
#include "tests/test.h"

/* RFC 9110 section 5.6.7: we write the first form, and read all three. */
TEST(reads_the_three_forms_of_a_date)
{
    assert_true(httpdate_read(SLICE("Sun, 06 Nov 1994 08:49:37 GMT")) ==
                784111777);
    assert_true(httpdate_read(SLICE("Sunday, 06-Nov-94 08:49:37 GMT")) ==
                784111777);
    assert_true(httpdate_read(SLICE("Sun Nov  6 08:49:37 1994")) == 784111777);
    assert_true(httpdate_read(SLICE("Thu, 01 Jan 1970 00:00:00 GMT")) == 0);
    assert_true(httpdate_read(SLICE("Mon, 29 Feb 2016 23:59:60 GMT")) ==
                1456790399);
}

TEST(writes_what_it_reads)
{
    static const int64_t times[] = {0, 784111777, 951782400, 1795517528,
                                    253402300799};
    char text[HTTPDATE_SIZE];

    httpdate_write(text, 784111777);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        httpdate_write(text, times[i]);
        assert_true(httpdate_read(slice_of(text)) == times[i]);
    }
}

/* An invalid date is as if it had not been sent (section 13.1.3). */
TEST(knows_what_is_no_date)
{
    static const char *const texts[] = {
        "",
        "now",
        "0",
        "784111777",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMT; length=3",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:-1 GMT",
        "Sun, 06 anF 1994 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 and a tail that is longer than any date is",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (httpdate_read(slice_of(texts[i])) != DATETIME_NONE)
            fail_msg("\"%s\" is a date", texts[i]);
    assert_true(httpdate_read((struct slice){NULL, 0}) == DATETIME_NONE);
}

/*
 * httpdate_test.c - the dates of HTTP's headers.
 */
#include "client/lib/httpdate.h"

#include "proto/datetime.h"
#include "tests/test.h"

TEST(a_date_is_read)
{
    assert_int_equal(httpdate_read("Sun, 06 Nov 1994 08:49:37 GMT"),
                     INT64_C(784111777000000));
    assert_int_equal(httpdate_read("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
}

TEST(a_date_is_written)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {INT64_C(253402300799), "Fri, 31 Dec 9999 23:59:59 GMT"},
    };

    char text[HTTPDATE_SIZE];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        httpdate_write(text, rows[i].seconds);
        assert_string_equal(text, rows[i].text);
    }
}

TEST(what_is_no_date_is_none)
{
    static const char *const texts[] = {
        NULL,
        "",
        "yesterday",
        "Sun, 06 Nov",
        "Sun, 06 Nvo 1994 08:49:37 GMT",
        "Sun, 06 anF 1994 08:49:37 GMT",
        "Sun, 06 N 1994 08:49:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_true(httpdate_read(texts[i]) == DATETIME_NONE);
}

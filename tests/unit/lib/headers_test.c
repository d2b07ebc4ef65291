/*
 * headers_test.c - header lines that only one server gets.
 */
#include "client/lib/headers.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static int
set_stage(void **state)
{
    *state = headers_new();
    return !*state;
}

static int
clear_stage(void **state)
{
    headers_free(*state);
    return 0;
}

static bool
collect(const char *line, void *user)
{
    char *all = user;

    strcat(strcat(all, line), ";");
    return true;
}

static void
assert_lines(struct headers *h, const char *url, const char *expected)
{
    char all[1000] = "";

    assert_true(headers_each(h, url, collect, all));
    assert_string_equal(all, expected);
}

FIXTURE(set_stage, clear_stage);

TEST(only_the_server_they_are_for_gets_them)
{
    struct headers *h = *state;

    assert_int_equal(headers_add(h, "https://a.example/sets/x", "A: 1"), 0);
    assert_int_equal(headers_add(h, "https://a.example:443/", "B: 2"), 0);
    assert_int_equal(headers_add(h, "http://a.example:8080", "C: 3"), 0);

    assert_lines(h, "https://A.example/elsewhere?q#f", "A: 1;B: 2;");
    assert_lines(h, "http://a.example:8080/", "C: 3;");
    assert_lines(h, "http://a.example/", "");
    assert_lines(h, "http://a.example:443/", "");
    assert_lines(h, "https://a.example.org/", "");
    assert_lines(h, "https://a.example@b.example/", "");
    assert_lines(h, "", "");
}

TEST(refuses_what_is_no_header_or_no_server)
{
    struct headers *h = *state;
    static const char *const bad[] = {
        "", "A", ": 1", "A B: 1", "A: 1\r\nB: 2", "A: 1\n"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(headers_add(h, "http://a.example/", bad[i]),
                         TD_INVALID);
    assert_int_equal(headers_add(h, "a.example", "A: 1"), TD_INVALID);
    assert_int_equal(headers_add(h, "ftp://a.example/", "A: 1"), TD_INVALID);

    assert_lines(h, "http://a.example/", "");
}

/*
 * copy_test.c - the address of a copy.
 */
#include "client/harvest/copy.h"

#include "tests/test.h"

#define HOME "http://h.example/sets/copy/r/"

/* a browser, curl and a proxy ask for the address as it stands; and each
 * has one original. */
TEST(an_address_has_one_original)
{
    static const char *const rows[][2] = {
        {"https://example.org/a.csv", "https/example.org/a.csv"},
        {"http://example.org/a.csv", "http/example.org/a.csv"},
        {"http://example.org:80/a.csv", "http/example.org:80/a.csv"},
        {"http://example.org", "http/example.org"},
        {"http://example.org/", "http/example.org/"},
        {"http://example.org?", "http/example.org~3F"},
        {"http://example.org/?a=1&b=2", "http/example.org/~3Fa=1~26b=2"},
        {"http://example.org/a%2Fb", "http/example.org/a~252Fb"},
        {"http://example.org/a/b", "http/example.org/a/b"},
        {"http://example.org/a~2Fb", "http/example.org/a~7E2Fb"},
        {"http://example.org//a", "http/example.org/~2Fa"},
        {"http://example.org///a", "http/example.org/~2F~2Fa"},
        {"http://example.org/../a", "http/example.org/~2E./a"},
        {"http://example.org/./a", "http/example.org/~2E/a"},
        {"http://example.org/a..b", "http/example.org/a..b"},
        {"http://example.org/a#b", "http/example.org/a~23b"},
        {"http://[::1]:80/a", "http/~5B::1~5D:80/a"},
        {"http://u:p@example.org/'a'", "http/u:p@example.org/~27a~27"},
        {"http://example.org/\xc3\xa9 ", "http/example.org/~C3~A9~20"},
        {"http://h.example/sets/copy/r/http/a.example/1",
         "http/h.example/sets/copy/r/http/a.example/1"},
        {"urn:x:y", "urn:x:y"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct buf to = {.max = 1000};

        copy_write_loc(&to, HOME, slice_of(rows[i][0]));
        buf_add(&to, "", 1);
        assert_false(to.failed);
        assert_string_equal(to.data + strlen(HOME), rows[i][1]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rows[k][1], rows[i][1]);
        buf_fini(&to);
    }
}

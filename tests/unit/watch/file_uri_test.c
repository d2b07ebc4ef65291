/*
 * file_uri_test.c - which files are published, and under which URI.
 */
#include "client/watch/file_uri.h"

#include <string.h>

#include "tests/test.h"

/* R-007; RFC 3986, section 2.3: unreserved characters and "/" stay. */
TEST(encodes_all_but_unreserved_characters)
{
    static const char *const rows[][2] = {
        {"a.html", "a.html"},
        {"a/b/c", "a/b/c"},
        {"azAZ09-._~", "azAZ09-._~"},
        {"a b", "a%20b"},
        {"50%", "50%25"},
        {"a?b#c", "a%3Fb%23c"},
        {"a+b&c=d;e,f", "a%2Bb%26c%3Dd%3Be%2Cf"},
        {"\"quoted\\", "%22quoted%5C"},
        {"{[(:@!$*')]}", "%7B%5B%28%3A%40%21%24%2A%27%29%5D%7D"},
        {"caf\xc3\xa9", "caf%C3%A9"},
        {"\xff\xfe/\x80", "%FF%FE/%80"},
        {"\x01\n\x7f", "%01%0A%7F"},
        {"..x/.y", "..x/.y"},
    };
    char loc[FILE_URI_MAX + 1];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(file_uri_write(loc, "http://example.com/d/", rows[i][0]));
        assert_memory_equal(loc, "http://example.com/d/", 21);
        assert_string_equal(loc + 21, rows[i][1]);
    }
}

/* 12 to 2,048 characters. */
TEST(refuses_locs_that_are_too_short_or_too_long)
{
    char loc[FILE_URI_MAX + 1];
    char path[FILE_URI_MAX];

    assert_false(file_uri_write(loc, "http://a/", "bc"));
    assert_true(file_uri_write(loc, "http://a/", "bcd"));

    memset(path, 'a', sizeof(path));
    path[FILE_URI_MAX - 9] = '\0';
    assert_true(file_uri_write(loc, "http://a/", path));
    assert_int_equal(strlen(loc), FILE_URI_MAX);
    path[FILE_URI_MAX - 9] = 'a';
    path[FILE_URI_MAX - 8] = '\0';
    assert_false(file_uri_write(loc, "http://a/", path));

    memset(path, '%', 700);
    path[700] = '\0';
    assert_false(file_uri_write(loc, "http://a/", path));
    path[679] = '\0';
    assert_true(file_uri_write(loc, "http://a/", path));
}

/* An absolute http or https URI that ends with "/". */
TEST(says_what_is_wrong_with_a_base_uri)
{
    static const char *const good[] = {
        "http://example.com/",         "https://example.com/a/b/",
        "http://example.com:8080/",    "http://[::1]:80/a/",
        "http://example.com/a%20b/c/",
    };
    static const char *const bad[][2] = {
        {"", "absolute"},
        {"files/", "absolute"},
        {"ftp://example.com/", "absolute"},
        {"HTTP://example.com/", "absolute"},
        {"http:///a/", "host"},
        {"http://", "host"},
        {"http://example.com", "\"/\""},
        {"http://example.com/data", "\"/\""},
        {"http://example.com/a?b=/", "query"},
        {"http://example.com/#a/", "fragment"},
        {"http://example.com/a b/", "percent-encoded"},
        {"http://example.com/\"/", "percent-encoded"},
        {"http://example.com/\\/", "percent-encoded"},
        {"http://example.com/\xc3\xa9/", "percent-encoded"},
        {"http://example.com/\n/", "percent-encoded"},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_null(file_uri_fault(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *fault = file_uri_fault(bad[i][0]);

        if (!fault || !strstr(fault, bad[i][1]))
            fail_msg("\"%s\": %s", bad[i][0], fault ? fault : "is fine");
    }
}

/* --exclude, by name anywhere and by path. */
TEST(excludes_by_name_and_by_path)
{
    static const char *const globs[] = {"*.tmp", "build/*.o", ".git", "x?"};

    static const struct {
        const char *path;
        bool is_excluded;
    } rows[] = {
        {"a.tmp", true},        {"a/b.tmp", true},
        {"a.tmp/b", true},      {".tmp", true},
        {"a.tmpl", false},      {"build/a.o", true},
        {"src/a.o", false},     {"src/build/a.o", false},
        {"build/a/b.o", false}, {".git", true},
        {".git/config", true},  {"a/.git/b/c", true},
        {".gitignore", false},  {"x1/a", true},
        {"x12/a", false},       {".tidings/watch.db", true},
        {"a/.tidings", true},   {".tidings2", false},
        {"a.tm\xff", false},    {"\xff.tmp", true},
    };

    char path[FILE_URI_PATH_MAX + 2];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (file_uri_is_excluded(globs, 4, rows[i].path) != rows[i].is_excluded)
            fail_msg("%s", rows[i].path);
    assert_false(file_uri_is_excluded(NULL, 0, "a.tmp"));

    memset(path, 'a', sizeof(path));
    path[FILE_URI_PATH_MAX + 1] = '\0';
    assert_true(file_uri_is_excluded(NULL, 0, path));
    path[FILE_URI_PATH_MAX] = '\0';
    assert_false(file_uri_is_excluded(NULL, 0, path));
}

/*
 * resource_path_test.c - where in a mirror a resource is.
 */
#include "client/mirror/resource_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/mirror/unpath.h"

static const char *
path_of(const char *loc)
{
    static char path[RESOURCE_PATH_MAX + 1];

    resource_path_write(path, slice_of(loc));
    return path;
}

TEST(makes_paths_that_can_be_read)
{
    static const char *const rows[][2] = {
        {"https://example.com/data/list.csv", "example.com/data/list.csv"},
        {"http://example.com/data/list.csv", "example.com:80/data/list.csv"},
        {"http://127.0.0.1:8080/a.txt", "127.0.0.1:8080/a.txt"},
        {"http://example.com:443/a.txt", "example.com:443/a.txt"},
        {"https://example.com:443/a.txt", "example.com:443%https/a.txt"},
        {"http://example.com:80/a.txt", "example.com:80%http/a.txt"},
        {"https://EX.com/a.txt", "%45%58.com/a.txt"},
        {"http://[::1]:80/a.txt", "%5B::1%5D:80%http/a.txt"},
        {"http://[::1]/a.txt", "%5B::1%5D:80/a.txt"},
        {"https://e.org/r/7", "e.org/r/7%"},
        {"https://e.org/", "e.org/%index"},
        {"https://e.org/r/", "e.org/r/%index"},
        {"https://e.org//r", "e.org/%empty/r%"},
        {"https://e.org/list.csv/7", "e.org/list.csv%/7%"},
        {"https://e.org/v1.0/10.1234/x.7z", "e.org/v1.0/10.1234/x.7z"},
        {"https://e.org/find.do?q=a/b", "e.org/find.do%3Fq=a%2Fb%"},
        {"https://e.org/a.html#top", "e.org/a.html%23top%"},
        {"https://e.org/My%20File.pdf", "e.org/My%20File.pdf"},
        {"https://e.org/%C3%a9.pdf", "e.org/%C3%a9.pdf"},
        {"https://e.org/100%25.pdf", "e.org/100%2525.pdf"},
        {"https://e.org/100%.pdf", "e.org/100%25.pdf"},
        {"https://e.org/a%2Fb.c", "e.org/a%252Fb.c"},
        {"https://e.org/a%2fb.c", "e.org/a%2fb.c"},
        {"https://e.org/a?x/b.c", "e.org/a%3Fx%2Fb.c"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(path_of(rows[i][0]), rows[i][1]);
}

TEST(never_leads_out_of_the_mirror)
{
    static const char *const rows[][2] = {
        {"https://e.org/../../etc/passwd", "e.org/%2E./%2E./etc/passwd%"},
        {"https://e.org/./a.b", "e.org/%2E/a.b"},
        {"https://e.org/..", "e.org/%2E.%"},
        {"https://e.org/.tidings/mirror.db", "e.org/%2Etidings/mirror.db"},
        {"https://e.org/a\\..\\b.c", "e.org/a%5C..%5Cb.c"},
        {"https://e.org/-rf", "e.org/%2Drf%"},
        {"https://e.org/~root", "e.org/%7Eroot%"},
        {"https://e.org/%2e%2e/a.b", "e.org/%2e%2e/a.b"},
        {"https://e.org/%2E%2E/a.b", "e.org/%252E%252E/a.b"},
        {"https://e.org/a%00b.c", "e.org/a%00b.c"},
    };
    static const char *const odd[] = {
        "https://../a.b",
        "https://.tidings/a.b",
        "https:///a.b",
        "https://user:secret@e.org/a.b",
        "https://e.org:0443/a.b",
        "https://e.org:/a.b",
        "https://e.org:99999/a.b",
        "ftp://e.org/a.b",
        "urn:x:y",
        "",
        "https://",
        "HTTPS://e.org/a.b",
        "/etc/passwd",
        "../x",
        "https://-e.org/a.b",
        "https://e%2Forg/a.b",
    };
    static const char *const odd_inside[] = {
        "https://e.org",      "https://e.org?q",        "https://e.org#f",
        "https://e.org/a b",  "https://e.org/\xc3\xa9", "https://e.org/a\nb",
        "https://e.org/\x7f",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(path_of(rows[i][0]), rows[i][1]);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (strncmp(path_of(odd[i]), "%digest/", 8))
            fail_msg("%s is at %s", odd[i], path_of(odd[i]));
    for (size_t i = 0; i < sizeof(odd_inside) / sizeof(odd_inside[0]); i++)
        if (strncmp(path_of(odd_inside[i]), "e.org/%digest/", 14))
            fail_msg("%s is at %s", odd_inside[i], path_of(odd_inside[i]));
    assert_string_equal(path_of("urn:x:y"), "%digest/89/"
                                            "89279ddb759fc0ce60ec5da92b64d19d"
                                            "6b5266b7d317776a3a734836fb703c2e");
}

/* Names of NAME_MAX bytes are there as they are, longer ones by their digest;
 * and so for paths. */
TEST(keeps_to_the_limits_of_file_systems)
{
    char loc[9000];
    int size;

    for (int n = 200; n < 300; n++) {
        size = snprintf(loc, sizeof(loc), "https://e.org/%0*d.txt", n, 1);
        assert_true(size > 0);
        if (n + 4 <= RESOURCE_PATH_NAME_MAX)
            assert_string_equal(path_of(loc), loc + 8);
        else
            assert_int_equal(strncmp(path_of(loc), "e.org/%digest/", 14), 0);
    }
    for (int n = 900; n < 1100; n++) {
        strcpy(loc, "https://e.org");
        for (int i = 0; i < n; i++)
            strcat(loc, "/a");
        strcat(loc, ".b");
        if (strlen(loc) - 8 <= RESOURCE_PATH_MAX)
            assert_string_equal(path_of(loc), loc + 8);
        else
            assert_int_equal(strncmp(path_of(loc), "e.org/%digest/", 14), 0);
        assert_true(strlen(path_of(loc)) <= RESOURCE_PATH_MAX);
    }
    memset(loc, 'a', sizeof(loc) - 1);
    memcpy(loc, "https://", 8);
    loc[sizeof(loc) - 1] = '\0';
    assert_int_equal(strncmp(path_of(loc), "%digest/", 8), 0);
}

/* A file is no directory of another, in any order. */
TEST(tells_a_file_from_a_directory)
{
    assert_string_equal(path_of("https://e.org/a/b"), "e.org/a/b%");
    assert_string_equal(path_of("https://e.org/a/b/c"), "e.org/a/b/c%");
    assert_string_equal(path_of("https://e.org/a/b.c"), "e.org/a/b.c");
    assert_string_equal(path_of("https://e.org/a/b.c/d"), "e.org/a/b.c%/d%");
    assert_string_equal(path_of("https://e.org/a/b/"), "e.org/a/b/%index");
}

/* Pseudo-random, the same ones each time. */
static unsigned
draw(uint32_t *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* URIs made of the pieces that might be mistaken for each other. */
static void
compose(char *to, uint32_t *seed)
{
    static const char *const starts[] = {
        "http://h/",    "https://h/",     "http://h:80/", "https://h:80/",
        "http://h:81/", "https://h:443/", "https://H/",   "http://h.txt/",
    };
    static const char *const pieces[] = {
        "a",   "b.txt", ".",     "..",     "/",      "//",      "%",
        "%2",  "%2F",   "%2f",   "%25",    "%41",    "A",       "25",
        "2F",  "?",     "#",     "%3F",    "-",      "~",       ".b",
        "%20", "*",     "index", "%empty", "%index", "%digest", "\\",
        ":80", "@",     "=",     "%2E",    ".7",     ".x1",     "'",
    };
    unsigned n = draw(seed, 6);

    strcpy(to, starts[draw(seed, sizeof(starts) / sizeof(starts[0]))]);
    while (n-- > 0)
        strcat(to, pieces[draw(seed, sizeof(pieces) / sizeof(pieces[0]))]);
}

/* The URI follows from the path: so no two URIs have the same one. Its
 * directories are no files: their names have different forms. */
TEST(tells_the_uri_by_its_path)
{
    uint32_t seed = 6;
    char loc[400];
    char back[RESOURCE_PATH_MAX + 20];
    unsigned n_plain = 0;

    for (int i = 0; i < 200000; i++) {
        const char *path;

        compose(loc, &seed);
        path = path_of(loc);
        if (!unpath_is_sound(path))
            fail_msg("%s is at %s", loc, path);
        if (!unpath(back, path))
            continue; /* a digest */
        n_plain++;
        if (strcmp(back, loc))
            fail_msg("%s is at %s, and that is of %s", loc, path, back);
    }
    assert_true(n_plain > 150000);
}

#include "base/path_pattern.h"

#include "tests/test.h"

static void
assert_holes(const char *pattern, const char *path, const char *expected)
{
    struct slice holes[PATH_HOLES_MAX];
    char text[200] = "";

    if (!path_pattern_match(pattern, slice_of(path), holes)) {
        assert_null(expected);
        return;
    }
    for (unsigned i = 0; i < PATH_HOLES_MAX; i++) {
        strncat(text, holes[i].size ? holes[i].data : "", holes[i].size);
        strcat(text, ",");
    }
    assert_non_null(expected);
    assert_string_equal(text, expected);
}

TEST(holes_are_parts_of_segments)
{
    assert_holes("/sets", "/sets", ",,,");
    assert_holes("/sets/{set}", "/sets/demo", "demo,,,");
    assert_holes("/sets/{set}/c/{list}.xml", "/sets/demo/c/12.xml",
                 "demo,12,,");
    assert_holes("/d/{first}-{last}.xml", "/d/1-2.xml", "1,2,,");
    assert_holes("/{a}/{b}/{c}", "/1/2/3", "1,2,3,");
    assert_holes("/s/{set}/s", "/s/s/s", "s,,,");
    assert_holes("/s/{set}/at/{uri}", "/s/a/at/http://b//c/",
                 "a,http://b//c/,,");
    assert_holes("/doc/{page}", "/doc/a.html", "a.html,,,");
    assert_holes("/doc/{page}", "/doc/", ",,,");
}

TEST(other_paths_do_not_match)
{
    assert_holes("/sets", "/set", NULL);
    assert_holes("/sets", "/sets/", NULL);
    assert_holes("/sets", "", NULL);
    assert_holes("/sets/{set}", "/sets/", NULL);
    assert_holes("/sets/{set}", "/sets/demo/x", NULL);
    assert_holes("/sets/{set}/c", "/sets//c", NULL);
    assert_holes("/c/{list}.xml", "/c/.xml", NULL);
    assert_holes("/c/{list}.xml", "/c/a/b.xml", NULL);
    assert_holes("/c/{list}.xml", "/c/12.xm", NULL);
    assert_holes("/c/{list}.xml", ".xml", NULL);
    assert_holes("/c/{list}.xml", "ml", NULL);
    assert_holes("/c/{list}.xml", "/c/1.2.xml", NULL);
    assert_holes("/at/{uri}", "/at/", NULL);
    assert_holes("/at/{uri}", "/a/t", NULL);
    assert_holes("/doc/{page}", "/doc", NULL);
    assert_holes("/doc/{page}", "/doc/a/b", NULL);
}

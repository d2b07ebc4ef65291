

#include "proto/uri.h"
#include "tests/test.h"

static void
assert_resolved(const char *base, const char *reference, const char *expected)
{
    struct buf b;

    buf_init(&b, 4096);
    uri_resolve(&b, slice_of(base), slice_of(reference));
    if (b.failed || !slice_is(buf_slice(&b), expected))
        fail_msg("%s at %s: \"%.*s\"", reference, base,
                 SLICE_ARG(buf_slice(&b)));
    buf_fini(&b);
}

/* W-007; the examples of RFC 3986 section 5.4, all of them. */
TEST(a_reference_means_what_the_rfc_says)
{
    static const char *const examples[][2] = {
        {"g:h", "g:h"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {"#s", "http://a/b/c/d;p?q#s"},
        {"g#s", "http://a/b/c/g#s"},
        {"g?y#s", "http://a/b/c/g?y#s"},
        {";x", "http://a/b/c/;x"},
        {"g;x", "http://a/b/c/g;x"},
        {"g;x?y#s", "http://a/b/c/g;x?y#s"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"./", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../..", "http://a/"},
        {"../../", "http://a/"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"../../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"/../g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {".g", "http://a/b/c/.g"},
        {"g..", "http://a/b/c/g.."},
        {"..g", "http://a/b/c/..g"},
        {"./../g", "http://a/b/g"},
        {"./g/.", "http://a/b/c/g/"},
        {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"},
        {"g;x=1/./y", "http://a/b/c/g;x=1/y"},
        {"g;x=1/../y", "http://a/b/c/y"},
        {"g?y/./x", "http://a/b/c/g?y/./x"},
        {"g?y/../x", "http://a/b/c/g?y/../x"},
        {"g#s/./x", "http://a/b/c/g#s/./x"},
        {"g#s/../x", "http://a/b/c/g#s/../x"},
        {"http:g", "http:g"},
    };

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
        assert_resolved("http://a/b/c/d;p?q", examples[i][0], examples[i][1]);
}

/* W-007 */
TEST(a_base_may_be_bare_or_have_a_fragment)
{
    assert_resolved("https://a.example", "hub", "https://a.example/hub");
    assert_resolved("https://a.example", "?x=1", "https://a.example?x=1");
    assert_resolved("https://a.example/x?a/b#c/d", "y", "https://a.example/y");
    assert_resolved("https://a.example/x?q#f", "", "https://a.example/x?q");
    assert_resolved("http://a/b", "HTTPS://B/../c", "HTTPS://B/c");
    assert_resolved("http://a/b", "//c?d/../e", "http://c?d/../e");
    assert_resolved("http://a/b", "1x:y", "http://a/1x:y");
    assert_resolved("urn:a:b", "#c", "urn:a:b#c");
}

TEST(what_does_not_fit_fails_whole)
{
    struct buf b;

    buf_init(&b, 16);
    uri_resolve(&b, SLICE("http://a.example/"), SLICE("../b/../c"));
    assert_true(b.failed);
    buf_fini(&b);
}

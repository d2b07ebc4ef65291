#include "proto/uri.h"

#include "tests/test.h"

/* */
TEST(accepts_absolute_uris_of_every_scheme)
{
    static const char *const good[] = {
        "http://example.com/",
        "HTTPS://user@example.com:80/a?b#c",
        "http://[::1]/a",
        "urn:tide:abc",
        "ftp://files.example.net/haven.csv",
        "tag:example.com,2026:a",
        "http://example.com/\xc3\xa5lesund-\xe6\xbd\xae",
        "http://example.com/q?a=<b>&c='d'",
        "a:b",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(uri_check(slice_of(good[i]), "href", NULL), 0);
}

/* */
TEST(refuses_what_is_no_absolute_uri)
{
    static const struct {
        const char *text;
        const char *why;
    } bad[] = {
        {"", "href: empty"},
        {"/a",
         "href: not an absolute URI, such as http://example.com/a: \"/a\""},
        {"a/b:c",
         "href: not an absolute URI, such as http://example.com/a: \"a/b:c\""},
        {"1a:b",
         "href: not an absolute URI, such as http://example.com/a: \"1a:b\""},
        {"http:",
         "href: not an absolute URI, such as http://example.com/a: \"http:\""},
        {":a",
         "href: not an absolute URI, such as http://example.com/a: \":a\""},
        {"http:/a", "href: no host in \"http:/a\""},
        {"http:///a", "href: no host in \"http:///a\""},
        {"https://:80/a", "href: no host in \"https://:80/a\""},
        {"http://user@/a", "href: no host in \"http://*@/a\""},
        {"http://", "href: no host in \"http://\""},
        {"http://example.com/a b",
         "href: white space, a control character or invalid UTF-8 in "
         "\"http://example.com/a b\""},
        {"http://example.com/\x7f", NULL},
        {"http://example.com/\xc2\x85", NULL},
        {"http://example.com/\xff", NULL},
        {"http://example.com/\xc0\xaf", NULL},
        {"http://example.com/\xed\xa0\x80", NULL},
        {"http://example.com/\xe6\xbd", NULL},
        {"http://example.com/\n", NULL},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct problem why = {""};

        assert_int_equal(uri_check(slice_of(bad[i].text), "href", &why),
                         STATUS_INVALID);
        if (bad[i].why)
            assert_string_equal(why.text, bad[i].why);
        assert_true(why.text[0]);
    }
    assert_int_equal(
        uri_check((struct slice){"http://a.example/\0b", 19}, "href", NULL),
        STATUS_INVALID);
}

/* characters, not bytes. */
TEST(counts_characters)
{
    char text[2 * URI_CHARACTERS_MAX] = "http://a.example/";
    size_t size = strlen(text);

    assert_int_equal(uri_check_loc(SLICE("urn:tide:ab"), NULL), STATUS_INVALID);
    assert_int_equal(uri_check_loc(SLICE("urn:tide:abc"), NULL), 0);

    for (size_t n = size; n < URI_CHARACTERS_MAX; n++, size += 2)
        memcpy(text + size, "\xc3\xa5", 2);
    assert_int_equal(uri_check_loc((struct slice){text, size}, NULL), 0);
    text[size++] = 'a';
    assert_int_equal(uri_check_loc((struct slice){text, size}, NULL),
                     STATUS_INVALID);
}

TEST(knows_the_names_of_sets)
{
    char name[SET_NAME_MAX + 1];

    memset(name, 'a', sizeof(name));
    assert_true(set_name_is_valid((struct slice){name, SET_NAME_MAX}));
    assert_false(set_name_is_valid((struct slice){name, SET_NAME_MAX + 1}));
    assert_true(set_name_is_valid(SLICE("0.a_b-c")));
    assert_false(set_name_is_valid(SLICE("")));
    assert_false(set_name_is_valid(SLICE(".a")));
    assert_false(set_name_is_valid(SLICE("A")));
    assert_false(set_name_is_valid(SLICE("a/b")));
    assert_false(set_name_is_valid(SLICE("\xc3\xa5")));
}

TEST(decodes_percent_escapes)
{
    char to[32];

    assert_int_equal(uri_decode(SLICE("a%20b%c3%A5+"), to), 6);
    assert_memory_equal(to, "a b\xc3\xa5+", 6);
    assert_int_equal(uri_decode(SLICE("%41"), to), 1);
    assert_int_equal(uri_decode(SLICE(""), to), 0);
    assert_int_equal(uri_decode(SLICE("%"), to), -1);
    assert_int_equal(uri_decode(SLICE("%4"), to), -1);
    assert_int_equal(uri_decode(SLICE("%4g"), to), -1);
    assert_int_equal(uri_decode(SLICE("a%00"), to), -1);
}

TEST(encodes_what_is_not_unreserved)
{
    char to[3 * 8];

    assert_int_equal(uri_encode(SLICE("aZ0-._~"), to), 7);
    assert_memory_equal(to, "aZ0-._~", 7);
    assert_int_equal(uri_encode(SLICE("/ +%\xc3\xa5"), to), 18);
    assert_memory_equal(to, "%2F%20%2B%25%C3%A5", 18);
    assert_int_equal(uri_encode(SLICE(""), to), 0);
}

/*
 * rights_test.c - patterns of names.
 */
#include "broker/access/rights.h"

#include <string.h>

#include "tests/test.h"

/* A star stands for any characters; "!" denies and wins; other names
 * are not included. */
TEST(patterns_include_and_deny)
{
    static const struct {
        const char *patterns, *name;
        bool is_included;
    } rows[] = {
        {"news", "news", true},
        {"news", "news-1", false},
        {"news", "new", false},
        {"", "news", false},
        {"*", "news", true},
        {"news-*", "news-", true},
        {"news-*", "news-1", true},
        {"news-*", "news", false},
        {"*-x-*", "a-x-b", true},
        {"*-x-*", "a-x", false},
        {"a*b*c", "abbbc", true},
        {"a*b*c", "abbbcd", false},
        {"**", "a", true},
        {"a,b\tc", "b", true},
        {"a,b\tc", "c", true},
        {"* !news", "news", false},
        {"!news *", "news", false},
        {"* !news-*", "news-1", false},
        {"* !news-*", "news", true},
        {"!news", "other", false},
        /* Any name */
        {"news", "", true},
        {"!news", "", false},
        {"", "", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rights rights = {.observe = false};

        assert_int_equal(rights_add(&rights, RIGHT_PUBLISH,
                                    slice_of(rows[i].patterns), NULL),
                         STATUS_OK);
        if (rights_include(&rights, RIGHT_PUBLISH, slice_of(rows[i].name)) !=
            rows[i].is_included)
            fail_msg("\"%s\" and \"%s\"", rows[i].patterns, rows[i].name);
        assert_false(
            rights_include(&rights, RIGHT_SUBSCRIBE, slice_of(rows[i].name)));
    }
}

TEST(a_pattern_has_the_characters_of_names)
{
    static const char *const bad[] = {"News", "a/b",  "!",        "a!b",
                                      "!!a",  "a\"b", "\xc3\xa4", "a?"};
    struct rights rights = {.observe = false};
    struct problem why = {""};
    char many[PATTERNS_SIZE + 8];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(
            rights_add(&rights, RIGHT_MANAGE, slice_of(bad[i]), &why),
            STATUS_INVALID);
    assert_string_equal(rights.manage, "");
    memset(many, 'a', sizeof(many));
    assert_int_equal(rights_add(&rights, RIGHT_MANAGE,
                                (struct slice){many, PATTERNS_SIZE}, &why),
                     STATUS_INVALID);
    assert_int_equal(rights_add(&rights, RIGHT_MANAGE,
                                (struct slice){many, PATTERNS_SIZE - 2}, &why),
                     STATUS_OK);
}

/* A pattern of many stars costs no more than its size times the name's. */
TEST(stars_do_not_multiply)
{
    struct rights rights = {.observe = false};
    char text[PATTERNS_SIZE];
    size_t n = 0;

    while (n < PATTERNS_SIZE - 4) {
        text[n++] = '*';
        text[n++] = 'a';
    }
    assert_int_equal(
        rights_add(&rights, RIGHT_PUBLISH, (struct slice){text, n}, NULL),
        STATUS_OK);
    assert_false(rights_include(
        &rights, RIGHT_PUBLISH,
        SLICE("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")));
}

TEST(an_administrator_holds_every_right)
{
    struct rights admin = {.admin = true}, observer = {.observe = true};

    assert_true(rights_include(&admin, RIGHT_ADMIN, SLICE("")));
    assert_true(rights_include(&admin, RIGHT_PUBLISH, SLICE("news")));
    assert_false(rights_name(&admin, RIGHT_PUBLISH, SLICE("news")));
    assert_true(rights_include(&observer, RIGHT_OBSERVE, SLICE("")));
    assert_true(
        rights_include(&observer, RIGHT_OBSERVE | RIGHT_MANAGE, SLICE("news")));
    assert_false(rights_include(&observer, RIGHT_MANAGE, SLICE("news")));
    assert_false(rights_include(&observer, RIGHT_ADMIN, SLICE("")));
}

#include "proto/resourcesync/vocab.h"

#include "tests/test.h"

/* */
TEST(knows_every_word_both_ways)
{
    for (int i = CAP_DESCRIPTION; i <= CAP_FRAMEWORK_NOTIFICATION; i++) {
        enum capability capability = CAP_DESCRIPTION;

        assert_int_equal(
            capability_of(slice_of(capability_names[(enum capability)i]),
                          &capability),
            0);
        assert_int_equal(capability, i);
    }
    for (int i = CHANGE_CREATED; i <= CHANGE_DELETED; i++) {
        enum change_kind kind = CHANGE_CREATED;

        assert_int_equal(
            change_kind_of(slice_of(change_kind_names[(enum change_kind)i]),
                           &kind),
            0);
        assert_int_equal(kind, i);
    }
}

/* I-06 */
TEST(reads_the_old_word_of_change_notification)
{
    enum capability capability = CAP_DESCRIPTION;

    assert_int_equal(
        capability_of(SLICE("changelist-notification"), &capability), 0);
    assert_int_equal(capability, CAP_CHANGE_NOTIFICATION);
    assert_int_equal(capability_of(SLICE("changes"), &capability),
                     STATUS_INVALID);
}

/* */
TEST(knows_frequencies_and_priorities)
{
    static const char *const good[] = {"0", "1", "0.5", "1.0", "0.0", "0.99"};
    static const char *const bad[] = {"",
                                      "2",
                                      "1.1",
                                      "-0.1",
                                      ".5",
                                      "0.",
                                      "0.x",
                                      "1,0",
                                      "0 ",
                                      "00",
                                      "0.00000000000000000000"};

    assert_true(is_changefreq(SLICE("never")));
    assert_false(is_changefreq(SLICE("Never")));
    assert_false(is_changefreq(SLICE("")));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(is_priority(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_priority(slice_of(bad[i])));
}

/* R-022, I-08 */
TEST(knows_media_types)
{
    static const char *const good[] = {
        "text/csv",
        "application/vnd.api+json",
        "application/ld+json; profile=\"http://example.org/p\"; charset=utf-8",
        "a/b;c=d",
        "a/b ; c=\"d\\\"e\"",
        "a/b;c=\"\"",
        "*/*",
    };
    static const char *const bad[] = {
        "",
        "text",
        "text/",
        "/csv",
        "text/csv;",
        "a/b c",
        "a/b;c",
        "a/b;c=",
        "a/b;c=\"d",
        "a/b;c=\"d\\",
        "a/b;c=d e",
        "a/b/c",
        "a/b;c=\"\n\"",
        "\xc3\xa5/b",
        " a/b",
        "a/b ",
        "a/b;c=\"d\\\n\"",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!is_media_type(slice_of(good[i])))
            fail_msg("refused %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (is_media_type(slice_of(bad[i])))
            fail_msg("accepted %s", bad[i]);
}

/* */
TEST(knows_relations)
{
    assert_true(is_relation(SLICE("describedby")));
    assert_true(is_relation(SLICE("a.b-1")));
    assert_true(is_relation(SLICE("http://example.org/rel/z")));
    assert_true(is_relation(SLICE(REL_PATCH)));
    assert_false(is_relation(SLICE("")));
    assert_false(is_relation(SLICE("Up")));
    assert_false(is_relation(SLICE("1a")));
    assert_false(is_relation(SLICE("up next")));
    assert_false(is_relation(SLICE("http://")));
}

/* */
TEST(knows_names_of_xml)
{
    assert_true(is_ncname(SLICE("a")));
    assert_true(is_ncname(SLICE("_a-1.\xc2\xb7")));
    assert_true(is_ncname(SLICE("\xc3\xa5")));
    assert_true(is_ncname(SLICE("\xf0\x90\x80\x80")));
    assert_false(is_ncname(SLICE("")));
    assert_false(is_ncname(SLICE("1a")));
    assert_false(is_ncname(SLICE("-a")));
    assert_false(is_ncname(SLICE("a:b")));
    assert_false(is_ncname(SLICE("a b")));
    assert_false(is_ncname(SLICE("a\xc3")));
    assert_false(is_ncname(SLICE("a\xc3\x97")));
    assert_false(is_ncname(SLICE("a='1' b")));
}

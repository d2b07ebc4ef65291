#include "proto/mqtt_topic.h"

#include "tests/test.h"

static bool
matches(const char *filter, const char *name)
{
    return mqtt_filter_matches(slice_of(filter), slice_of(name));
}

/* MQTT 5, section 4.7.1.3 */
TEST(a_plus_is_one_level)
{
    assert_true(matches("plant/+/changes", "plant/7/changes"));
    assert_true(matches("plant/+/changes", "plant//changes"));
    assert_false(matches("plant/+/changes", "plant/7/8/changes"));
    assert_false(matches("plant/+", "plant"));
    assert_true(matches("plant/+", "plant/"));
    assert_true(matches("+", "plant"));
    assert_false(matches("+", "/plant"));
    assert_true(matches("+/+", "/plant"));
}

/* Section 4.7.1.2 */
TEST(a_number_sign_is_all_that_follows_and_none)
{
    assert_true(matches("library/#", "library"));
    assert_true(matches("library/#", "library/"));
    assert_true(matches("library/#", "library/a/b"));
    assert_false(matches("library/#", "libraries/a"));
    assert_true(matches("#", "library/a"));
}

TEST(names_without_wildcards_match_as_they_are)
{
    assert_true(matches("a/b", "a/b"));
    assert_false(matches("a/b", "a/B"));
    assert_false(matches("a/b", "a/b/"));
    assert_false(matches("a/b/", "a/b"));
    assert_false(matches("a/b/c", "a/b"));
}

/* Section 4.7.2 */
TEST(wildcards_do_not_begin_what_is_the_brokers_own)
{
    assert_false(matches("#", "$SYS/broker"));
    assert_false(matches("+/broker", "$SYS/broker"));
    assert_true(matches("$SYS/#", "$SYS/broker"));
}

TEST(wildcards_stand_for_whole_levels)
{
    static const char *const good[] = {"a", "/", "+", "#", "a/+/#", "+/+", "ä"};
    static const char *const bad[] = {"",      "a+",      "a/b#", "a/#/b",
                                      "#/a",   "a/+b",    "a\n",  "a\x7f",
                                      "\xff/", "\xc2\x85"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(mqtt_filter_is_valid(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(mqtt_filter_is_valid(slice_of(bad[i])));
    assert_true(mqtt_topic_is_valid(SLICE("a/b")));
    assert_false(mqtt_topic_is_valid(SLICE("a/+")));
    assert_false(mqtt_topic_is_valid(SLICE("a/#")));
    assert_false(mqtt_topic_is_valid(SLICE("a\0b")));
}

/* MQTT 5, section 1.5.4: a string that is no topic may have the wildcards. */
TEST(strings_are_utf8_without_control_characters)
{
    assert_true(mqtt_text_is_valid(SLICE("a+#/ \xc3\xa4")));
    assert_false(mqtt_text_is_valid(SLICE("")));
    assert_false(mqtt_text_is_valid(SLICE("a\0")));
    assert_false(mqtt_text_is_valid(SLICE("a\x1f")));
    assert_false(mqtt_text_is_valid(SLICE("a\xc3")));
}

TEST(tells_the_level_of_the_first_plus)
{
    assert_true(
        slice_is(mqtt_filter_level(SLICE("a/+/+"), SLICE("a/b/c")), "b"));
    assert_true(slice_is(mqtt_filter_level(SLICE("+"), SLICE("b")), "b"));
    assert_int_equal(mqtt_filter_level(SLICE("a/#"), SLICE("a/b")).size, 0);
}

#include "base/suggest.h"

#include "tests/test.h"

TEST(distance_counts_letters_to_be_mended)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } words[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"data", "data", 0},
        {"data", "date", 1},
        {"data", "daata", 1},
        {"data", "dta", 1},
        {"data", "adta", 1},
        {"data", "dtaa", 1},
        {"listen", "silent", 4},
        {"ca", "abc", 3},
        {"kitten", "sitting", 3},
        {"ab", "ba", 1},
        {"a", "b", 1},
        {"max-Bytes", "MAX_bytes", 0},
        {"--", "_", 0},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct slice a = slice_of(words[i].a), b = slice_of(words[i].b);

        assert_int_equal(suggest_distance(a, b), words[i].distance);
        assert_int_equal(suggest_distance(b, a), words[i].distance);
    }
}

TEST(a_word_that_is_too_long_is_far_from_everything)
{
    char text[SUGGEST_SIZE_MAX + 1];
    struct slice longest = {text, SUGGEST_SIZE_MAX};
    struct slice longer = {text, SUGGEST_SIZE_MAX + 1};

    memset(text, 'a', sizeof(text));
    assert_int_equal(suggest_distance(longest, longest), 0);
    assert_int_equal(suggest_distance(longest, SLICE("")), SUGGEST_SIZE_MAX);
    assert_int_equal(suggest_distance(longer, SLICE("a")), SIZE_MAX);
    assert_int_equal(suggest_distance(SLICE("a"), longer), SIZE_MAX);
}

static const char *
nearest(const char *word)
{
    struct suggestion s;

    suggest_begin(&s, slice_of(word));
    suggest_consider(&s, "tail-bytes");
    suggest_consider(&s, "data");
    suggest_consider(&s, "max-bytes");
    suggest_consider(&s, "date");
    return s.nearest;
}

TEST(the_nearest_is_suggested_the_first_of_equals_and_none_that_is_far)
{
    assert_string_equal(nearest("date"), "date");
    assert_string_equal(nearest("dat"), "data");
    assert_string_equal(nearest("tall_byte"), "tail-bytes");
    assert_string_equal(nearest("maxbytes"), "max-bytes");
    assert_null(nearest("xatx"));
    assert_null(nearest(""));
    assert_null(nearest("completely-other"));
}

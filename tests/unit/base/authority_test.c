#include "broker/base/authority.h"

#include "tests/test.h"

TEST(only_an_earlier_end_counts)
{
    struct authority *a = authority_new(NULL, 1000);
    struct problem why = {""};

    assert_false(authority_is_over(a, 999));
    assert_true(authority_is_over(a, 1000));
    authority_end(a, 2000);
    assert_true(authority_is_over(a, 1000));
    assert_int_equal(authority_check(a, 400, &why), STATUS_OK);
    authority_end(a, 300);
    assert_int_equal(authority_check(a, 400, &why), STATUS_DENIED);
    assert_string_equal(why.text, AUTHORITY_MISSING);
    authority_unref(a);
}

/* The one that others are of lives as long as they do. */
TEST(ends_with_the_one_that_it_is_of)
{
    struct authority *token = authority_new(NULL, INT64_MAX);
    struct authority *one = authority_new(token, INT64_MAX);
    struct authority *other = authority_new(token, INT64_MAX);

    authority_unref(token);
    authority_end(one, 0);
    assert_true(authority_is_over(one, 1));
    assert_false(authority_is_over(other, 1));
    authority_end(other->of, 0);
    assert_true(authority_is_over(other, 1));
    authority_unref(one);
    authority_unref(other);
}

TEST(nobody_lasts_for_ever)
{
    assert_false(authority_is_over(NULL, INT64_MAX));
    assert_null(authority_ref(NULL));
    authority_unref(NULL);
}

#include "base/random.h"

#include <string.h>

#include "tests/test.h"

TEST(names_have_all_digits_asked_for_and_differ)
{
    char name[1001], other[1001], one[1] = "x";

    assert_true(random_hex(name, sizeof(name)));
    assert_true(random_hex(other, sizeof(other)));
    assert_true(random_hex(one, sizeof(one)));

    assert_int_equal(strspn(name, "0123456789abcdef"), 1000);
    assert_int_equal(name[1000], '\0');
    assert_memory_not_equal(name + 900, other + 900, 100);
    assert_string_equal(one, "");
}

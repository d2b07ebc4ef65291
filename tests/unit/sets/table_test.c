#include "broker/sets/table.h"

#include <stdio.h>

#include "tests/test.h"

TEST(finds_what_was_added_in_whatever_order)
{
    static char names[1000][8];
    struct table table = {NULL};

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof(names[i]), "n%u", i * 617 % 1000);
        assert_int_equal(table_add(&table, names[i], names[i]), STATUS_OK);
    }
    assert_int_equal(table.n, 1000);
    for (size_t i = 0; i + 1 < table.n; i++)
        assert_true(strcmp(table.rows[i].name, table.rows[i + 1].name) < 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_ptr_equal(table_find(&table, slice_of(names[i])), names[i]);
    assert_null(table_find(&table, SLICE("n")));
    assert_null(table_find(&table, SLICE("n1000")));
    assert_null(table_find(&table, SLICE("z")));
    table_fini(&table);
}

/* A name that begins another one stands before it. */
TEST(places_are_those_of_the_order)
{
    static const char *const names[] = {"a", "ab", "b"};
    struct table table = {NULL};

    assert_null(table_find(&table, SLICE("a")));
    for (size_t i = 3; i-- > 0;)
        assert_int_equal(table_add(&table, names[i], (void *)names), STATUS_OK);
    assert_int_equal(table_place(&table, SLICE("")), 0);
    assert_int_equal(table_place(&table, SLICE("ab")), 1);
    assert_int_equal(table_place(&table, SLICE("abc")), 2);
    assert_int_equal(table_place(&table, SLICE("c")), 3);
    table_remove(&table, "ab");
    table_remove(&table, "ab");
    table_remove(&table, "z");
    assert_int_equal(table.n, 2);
    assert_null(table_find(&table, SLICE("ab")));
    assert_non_null(table_find(&table, SLICE("b")));
    table_fini(&table);
}

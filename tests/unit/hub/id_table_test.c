/* Things by their numbers: looked up, walked in order, taken out. */
#include "broker/hub/callback_tables.h"
#include "tests/test.h"

#define MANY 1000

TEST(what_is_there_is_found_and_walked_in_order)
{
    static int things[MANY];
    struct id_table ids = {.slots = NULL};
    uint64_t at = 0;

    assert_null(id_table_next(&ids, 0));
    assert_null(id_table_find(&ids, 1));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(id_table_add(&ids, 3 * i + 1, &things[i]), STATUS_OK);
    assert_int_equal(ids.n, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(id_table_find(&ids, 3 * i + 1), &things[i]);
        assert_null(id_table_find(&ids, 3 * i + 2));
        assert_ptr_equal(id_table_next(&ids, at), &things[i]);
        at = 3 * i + 1;
        /* Another walk, between two steps of the first. */
        assert_ptr_equal(id_table_next(&ids, 3 * (MANY - 1 - i)),
                         &things[MANY - 1 - i]);
    }
    assert_null(id_table_next(&ids, at));
    assert_null(id_table_next(&ids, UINT64_MAX));
    id_table_fini(&ids);
    assert_null(id_table_next(&ids, 0));
}

/* Memory grows with the present number, not with all that ever existed. */
TEST(what_is_removed_is_gone)
{
    static int things[MANY];
    struct id_table ids = {.slots = NULL};

    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(id_table_add(&ids, i + 1, &things[i]), STATUS_OK);
    id_table_remove(&ids, MANY + 1);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 100 == 99)
            continue;
        id_table_remove(&ids, i + 1);
        id_table_remove(&ids, i + 1);
    }
    assert_int_equal(ids.n, 10);
    assert_true(ids.n_slots <= 21);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(id_table_find(&ids, i + 1),
                         i % 100 == 99 ? &things[i] : NULL);
        assert_ptr_equal(id_table_next(&ids, i), &things[i / 100 * 100 + 99]);
    }
    for (size_t i = 0; i < MANY; i++)
        id_table_remove(&ids, i + 1);
    assert_int_equal(ids.n, 0);
    assert_null(id_table_next(&ids, 0));
    assert_int_equal(id_table_add(&ids, MANY + 7, &things[0]), STATUS_OK);
    assert_ptr_equal(id_table_next(&ids, 0), &things[0]);
    id_table_fini(&ids);
}

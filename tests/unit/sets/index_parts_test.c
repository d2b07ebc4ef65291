#include "broker/sets/index_parts.h"

#include "tests/test.h"

/* neither the index of the archive nor a part of it ever has more
 * than 50,000 entries, and all lists are in one of them. */
TEST(no_document_of_the_archive_has_too_many_entries)
{
    static const uint64_t settings[] = {1, 3, 1000, 49999};
    static const uint64_t counts[] = {1,          49999,      50000,  50001,
                                      2499999999, 2500000000, 1000000};

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            uint64_t size = parts_of(1, counts[k] + 1, settings[i]).size;

            assert_in_range(size, 1, 50000);
            assert_in_range((counts[k] + size - 1) / size, 1, 50000);
        }
    assert_int_equal(parts_of(1, 1000001, 1000).size, 1000);
}

/* one document up to the setting, for any earlier content of the
 * archive. */
TEST(there_is_an_index_when_one_part_does_not_do)
{
    assert_false(parts_of(1, 1, 3).has_index);
    assert_false(parts_of(1, 4, 3).has_index);
    assert_true(parts_of(1, 5, 3).has_index);
    assert_false(parts_of(2, 5, 3).has_index);
}

TEST(parts_begin_at_multiples_of_their_size)
{
    const struct parts parts = {.size = 3};

    assert_int_equal(parts_begin(&parts, 1), 1);
    assert_int_equal(parts_begin(&parts, 3), 1);
    assert_int_equal(parts_begin(&parts, 4), 4);
}

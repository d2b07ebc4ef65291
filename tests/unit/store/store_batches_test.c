/*
 * store_batches_test.c - which rows the log thread has to forget, of many sets.
 */
#include "broker/store/store_batches.h"

#include "tests/test.h"

#define SETS 100U

/* More sets than the table first has room for owe rows at once, and each of
 * them again: the debt of a set grows, and is paid once. */
TEST(keeps_one_debt_of_each_set)
{
    struct store_batches s = {.db = NULL};
    unsigned n_paid[3 * SETS] = {0};

    for (uint64_t upto = 1; upto <= 2; upto++)
        for (uint32_t i = 0; i < SETS; i++)
            assert_int_equal(store_batches_owe(&s, 3 * i, upto), STATUS_OK);
    assert_int_equal(s.n_debts, SETS);
    for (unsigned left = SETS; left > 0; left--) {
        assert_int_equal(s.n_debts, left);
        assert_int_equal(s.debts[0].upto, 2);
        n_paid[s.debts[0].set]++;
        store_batches_paid(&s);
    }
    for (uint32_t set = 0; set < 3 * SETS; set++)
        assert_int_equal(n_paid[set], set % 3 == 0);

    /* A set that has paid may owe again. */
    assert_int_equal(store_batches_owe(&s, 3, 9), STATUS_OK);
    assert_int_equal(s.n_debts, 1);
    assert_int_equal(s.debts[0].set, 3);
    assert_int_equal(s.debts[0].upto, 9);
    store_batches_fini(&s);
}

/*
 * store_rows_test.c - which rows the log thread has to forget, of many sets.
 */
#include "broker/store/store_rows.h"

#include "tests/test.h"

#define SETS 100U

/* Many sets owe rows at once, and each of them again: the debt of a set grows,
 * and is paid once. */
TEST(keeps_one_debt_of_each_set)
{
    struct map d = {.n = 0};
    const struct store_debt *debt;
    unsigned n_paid[3 * SETS] = {0};

    for (uint64_t upto = 1; upto <= 2; upto++)
        for (uint32_t i = 0; i < SETS; i++)
            store_debts_owe(&d, 3 * i, upto);
    assert_int_equal(d.n, SETS);
    for (unsigned left = SETS; left > 0; left--) {
        assert_int_equal(d.n, left);
        debt = store_debts_first(&d);
        assert_int_equal(debt->upto, 2);
        n_paid[debt->node.hash]++;
        store_debts_paid(&d, store_debts_first(&d));
    }
    for (uint32_t set = 0; set < 3 * SETS; set++)
        assert_int_equal(n_paid[set], set % 3 == 0);

    /* A set that has paid may owe again. */
    assert_null(store_debts_first(&d));
    store_debts_owe(&d, 3, 9);
    assert_int_equal(d.n, 1);
    assert_int_equal(store_debts_first(&d)->node.hash, 3);
    assert_int_equal(store_debts_first(&d)->upto, 9);
    store_debts_fini(&d);
}

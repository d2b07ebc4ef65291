/*
 * rates_test.c - the last hour of each set.
 */
#include "broker/sets/rates.h"

#include <stdlib.h>

#include "broker/sets/registry.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define MINUTE ((int64_t)60000000)

FIXTURE(stage_open, stage_close);

static uint32_t
entries_at(const struct set *set, unsigned minutes_ago)
{
    struct rate rate;

    rates_read(s.registry->rates, set, &rate);
    return rate.entries[RATE_MINUTES - 1 - minutes_ago];
}

static uint32_t
sum_of(const struct set *set)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < RATE_MINUTES; i++)
        sum += entries_at(set, i);
    return sum;
}

TEST(entries_count_in_their_minute)
{
    struct set *set = sets_post(&s, "news", 1, 3);

    assert_int_equal(entries_at(set, 0), 3);
    clock_pass_us(2 * MINUTE);
    sets_post(&s, "news", 4, 2);
    sets_post(&s, "news", 6, 1);
    sets_post(&s, "other", 1, 5);
    assert_int_equal(entries_at(set, 0), 3);
    assert_int_equal(entries_at(set, 1), 0);
    assert_int_equal(entries_at(set, 2), 3);
    assert_int_equal(sum_of(set), 6);
    assert_int_equal(entries_at(NULL, 0), 8);
    assert_int_equal(sum_of(NULL), 11);
}

TEST(an_hour_later_they_are_gone)
{
    struct set *set = sets_post(&s, "news", 1, 3);

    clock_pass_us(59 * MINUTE);
    assert_int_equal(entries_at(set, 59), 3);
    clock_pass_us(MINUTE);
    assert_int_equal(sum_of(set), 0);
    /* The same element of the ring, and no older one comes back. */
    sets_post(&s, "news", 4, 1);
    assert_int_equal(sum_of(set), 1);
    clock_pass_us(1000 * MINUTE);
    assert_int_equal(sum_of(set), 0);
    sets_post(&s, "news", 5, 1);
    assert_int_equal(sum_of(set), 1);
}

/* Minutes keep their place when an administrator sets the clock. */
TEST(a_clock_that_is_set_back_does_no_harm)
{
    struct set *set = sets_post(&s, "news", 1, 3);

    clock_set_us(-2 * MINUTE);
    sets_post(&s, "news", 4, 2);
    assert_int_equal(entries_at(set, 0), 2);
    clock_set_us(2 * MINUTE);
    assert_int_equal(entries_at(set, 0), 3);
    assert_int_equal(entries_at(set, 2), 2);
    clock_set_us(-1000 * MINUTE);
    sets_post(&s, "news", 6, 1);
    clock_set_us(1000 * MINUTE);
    assert_int_equal(sum_of(set), 6);
}

TEST(a_lag_is_the_largest_of_its_minute)
{
    struct set *set = sets_post(&s, "news", 1, 9);
    struct rates *rates = s.registry->rates;
    struct rate rate;

    rates_note_lag(rates, set, 1, 7);
    rates_note_lag(rates, set, 1, 9);
    rates_note_lag(rates, set, 2, 4);
    rates_read(rates, set, &rate);
    assert_int_equal(rate.lags[RATE_MINUTES - 1], 9);
    assert_int_equal(rate.transport_lags[1], 9);
    assert_int_equal(rate.transport_lags[2], 4);
    /* What the last look saw counts as the lag of now. */
    clock_pass_us(RATE_LAG_S * INT64_C(1000000));
    rates_note_lag(rates, set, 2, 1);
    rates_read(rates, set, &rate);
    assert_int_equal(rate.transport_lags[1], 0);
    assert_int_equal(rate.transport_lags[2], 1);
    clock_pass_us(MINUTE);
    rates_read(rates, NULL, &rate);
    assert_int_equal(rate.lags[RATE_MINUTES - 1], 0);
    assert_int_equal(rate.lags[RATE_MINUTES - 2], 9);
}

/* The lag of a set; 0: it has none, or ten other sets lag more. */
static uint64_t
lagging(struct rates *rates, enum rate_reader kind, const struct set *set)
{
    struct lagging_set found[RATE_LAGGING];
    size_t n = rates_lagging(rates, kind, found);

    for (size_t i = 0; i < n; i++)
        if (found[i].set == set)
            return found[i].lag;
    return 0;
}

/* Of each kind of reader, those with the largest lags, as of the last look. */
TEST(the_sets_that_lag_most_are_known)
{
    struct rates *rates = rates_new();
    struct set sets[3 * RATE_LAGGING] = {{0}};
    struct lagging_set found[RATE_LAGGING];

    for (int i = 0; i < 3 * RATE_LAGGING; i++)
        rates_note_last(rates, RATE_HUB, &sets[i * 7 % 30],
                        100 + (uint64_t)(i * 7 % 30));
    for (int i = 0; i < 3 * RATE_LAGGING; i++)
        assert_int_equal(lagging(rates, RATE_HUB, &sets[i]),
                         i < 2 * RATE_LAGGING ? 0 : 100 + i);
    assert_int_equal(rates_lagging(rates, RATE_BRIDGES, found), 0);

    /* Two readers of a set: the last one counts. */
    rates_note_last(rates, RATE_BRIDGES, &sets[0], 7);
    rates_note_last(rates, RATE_BRIDGES, &sets[0], 9);
    rates_note_last(rates, RATE_BRIDGES, &sets[0], 8);
    assert_int_equal(lagging(rates, RATE_BRIDGES, &sets[0]), 9);
    rates_note_lag(rates, &sets[1], 2, 5);
    assert_int_equal(lagging(rates, RATE_SUBSCRIBERS, &sets[1]), 5);

    /* The next look: a set that has caught up makes room for another. */
    clock_pass_us(1000000);
    rates_note_last(rates, RATE_HUB, &sets[29], 3);
    assert_int_equal(lagging(rates, RATE_HUB, &sets[29]), 3);
    rates_note_last(rates, RATE_HUB, &sets[19], 119);
    assert_int_equal(lagging(rates, RATE_HUB, &sets[19]), 119);
    assert_int_equal(lagging(rates, RATE_HUB, &sets[29]), 0);

    /* A removed set leaves the rows, and one without a note for a while. */
    rates_forget(rates, &sets[19]);
    assert_int_equal(lagging(rates, RATE_HUB, &sets[19]), 0);
    clock_pass_us(RATE_LAG_S * INT64_C(1000000));
    rates_note_last(rates, RATE_HUB, &sets[0], 1);
    assert_int_equal(rates_lagging(rates, RATE_HUB, found), 1);
    rates_free(rates);
}

/* Sets beyond the bound have no rate, until others have been idle for an hour;
 * the whole broker always has one. */
TEST(rings_are_bounded)
{
    struct rates *rates = rates_new();
    struct set *sets = calloc(RATES_MAX + 2, sizeof(*sets));
    struct rate rate;

    for (int i = 0; i <= RATES_MAX; i++)
        rates_count(rates, &sets[i], 1);
    rates_read(rates, &sets[RATES_MAX - 1], &rate);
    assert_int_equal(rate.entries[RATE_MINUTES - 1], 1);
    rates_read(rates, &sets[RATES_MAX], &rate);
    assert_int_equal(rate.entries[RATE_MINUTES - 1], 0);
    rates_read(rates, NULL, &rate);
    assert_int_equal(rate.entries[RATE_MINUTES - 1], RATES_MAX + 1);

    clock_pass_us(60 * MINUTE);
    for (int i = 1; i < RATES_MAX; i++)
        rates_count(rates, &sets[i], 1);
    rates_forget(rates, &sets[1]);
    for (int i = 0; i < 2; i++) { /* the idle one, and the removed one */
        struct set *set = &sets[RATES_MAX + i];

        for (int look = 0; look <= RATES_MAX / 64 && !set->rate_ring; look++)
            rates_count(rates, set, 2);
        rates_read(rates, set, &rate);
        assert_int_equal(rate.entries[RATE_MINUTES - 1], 2);
    }
    rates_read(rates, &sets[0], &rate);
    assert_int_equal(rate.entries[RATE_MINUTES - 1], 0);
    rates_read(rates, &sets[2], &rate);
    assert_int_equal(rate.entries[RATE_MINUTES - 1], 1);
    rates_free(rates);
    free(sets);
}

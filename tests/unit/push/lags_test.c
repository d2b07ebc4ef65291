#include "broker/push/lags.h"

#include "proto/slice.h"
#include "tests/test.h"

static const struct transport *
json(void)
{
    return transports_of_websocket(true, SLICE("resourcesync.json"), false);
}

static const struct transport *
xml(void)
{
    return transports_of_websocket(true, SLICE("resourcesync.xml"), false);
}

static void
assert_found(struct lags *lags, const struct transport *transport, uint64_t sum,
             uint64_t max)
{
    struct lag found = {0, 0};

    lags_collect(lags, transports_number(transport), &found);
    assert_int_equal(found.sum, sum);
    assert_int_equal(found.max, max);
}

TEST(a_look_is_seen_when_it_is_whole_and_replaces_the_last)
{
    struct lags lags = {0};

    assert_true(lags_begin(&lags, 5000000));
    lags_add(&lags, json(), 3);
    lags_add(&lags, json(), 7);
    lags_add(&lags, json(), 0);
    lags_add(&lags, xml(), 5);
    assert_found(&lags, json(), 0, 0);
    lags_end(&lags);
    assert_found(&lags, json(), 10, 7);
    assert_found(&lags, xml(), 5, 5);

    assert_false(lags_begin(&lags, 5999999));
    assert_true(lags_begin(&lags, 6000000));
    lags_add(&lags, json(), 1);
    lags_end(&lags);
    assert_found(&lags, json(), 1, 1);
    assert_found(&lags, xml(), 0, 0);
}

TEST(threads_are_collected_together)
{
    struct lags threads[2] = {{0}, {0}};
    struct lag found = {0, 0};

    for (uint64_t i = 0; i < 2; i++) {
        assert_true(lags_begin(&threads[i], 1000000));
        lags_add(&threads[i], xml(), 9 - i);
        lags_end(&threads[i]);
        lags_collect(&threads[i], transports_number(xml()), &found);
    }
    assert_int_equal(found.sum, 17);
    assert_int_equal(found.max, 9);
}

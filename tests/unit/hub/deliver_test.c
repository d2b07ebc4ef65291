#include "broker/hub/deliver.h"

#include "tests/unit/hub/engine.h"

/* W-080, W-081, W-083, W-085; R-296: what is committed goes to the callback as
 * it was given, with the topic's type and one line of links; after a 2xx the
 * subscription rests. */
static void
delivers_what_is_committed(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/cb?a=b&c", 2);
    turns();
    assert_int_equal(e.n_sent, 0);

    sets_post(&e.sets, "demo", 2, 3);
    turns();

    assert_int_equal(e.n_sent, 1);
    assert_string_equal(last_sent()->call->url,
                        "http://receiver.example/cb?a=b&c");
    assert_string_equal(header(last_sent(), "Content-Type"), "application/xml");
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/demo/notifications>; rel=\"self\"");
    assert_sent(last_sent(), 2, 5);
    assert_kept(s, 2, 5);
    finish(s, 204);
    assert_int_equal(s->after, 5);
    assert_int_equal(s->n_deliveries, 1);
    assert_int_equal(e.n_sent, 1);
    engine_close();
}

/* W-093, R-306: one delivery in flight; what accumulates goes out merged, in
 * order, when it has come to its end. */
static void
merges_what_comes_while_one_is_in_flight(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (unsigned i = 1; i < 10; i++) {
        sets_post(&e.sets, "demo", i, 1);
        turns();
    }
    assert_int_equal(e.n_sent, 1);
    assert_sent(last_sent(), 0, 1);

    finish(s, 200);

    assert_int_equal(e.n_sent, 2);
    assert_sent(last_sent(), 1, 10);
    finish(s, 200);
    assert_int_equal(e.n_sent, 2);
    engine_close();
}

/* R-306, W-091: the range is fixed at the first try: each later one is the same
 * bytes under the same id, whatever was committed meanwhile. */
static void
repeats_a_failed_delivery_byte_for_byte(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (unsigned i = 0; i < 5; i++) {
        finish(s, 500);
        sets_post(&e.sets, "demo", 2 + i, 1);
        pass(next_alarm());
    }

    assert_int_equal(e.n_sent, 6);
    for (size_t i = 1; i < 6; i++) {
        assert_true(slice_equal(buf_slice(&e.sent[i].body),
                                buf_slice(&e.sent[0].body)));
        assert_string_equal(header(&e.sent[i], "Tidings-Delivery"),
                            header(&e.sent[0], "Tidings-Delivery"));
        assert_true(e.sent[i].is_suspect);
    }
    finish(s, 200);
    assert_sent(last_sent(), 2, 7);
    assert_string_not_equal(header(last_sent(), "Tidings-Delivery"),
                            header(&e.sent[0], "Tidings-Delivery"));
    assert_int_equal(s->failures, 0);
    engine_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(delivers_what_is_committed,
                                        tempdir_setup, tempdir_teardown),
        cmocka_unit_test_setup_teardown(
            merges_what_comes_while_one_is_in_flight, tempdir_setup,
            tempdir_teardown),
        cmocka_unit_test_setup_teardown(repeats_a_failed_delivery_byte_for_byte,
                                        tempdir_setup, tempdir_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

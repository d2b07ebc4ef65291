#include "tests/unit/net/served.h"

static void
answers_a_get_and_keeps_the_connection(void **state)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
    }
    wire_close(w);
}

static void
hands_over_the_body_of_a_post(void **state)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w, "POST", "/echo", NULL, "some body", &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "some body");
        assert_true(wire_request(w, "POST", "/later", NULL, "some body", &a));
        assert_string_equal(a.body, "later 9");
    }
    wire_close(w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_a_get_and_keeps_the_connection,
                                        served_open, served_close),
        cmocka_unit_test_setup_teardown(hands_over_the_body_of_a_post,
                                        served_open, served_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

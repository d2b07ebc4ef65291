#include "broker/base/body.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void
a_body_in_memory_hands_out_its_bytes_once_and_ends(void **state)
{
    struct buf text;
    struct slice piece;
    struct body *body;

    (void)state;
    buf_init(&text, 100);
    buf_add_text(&text, "hello");

    body = body_of_buf(&text);

    assert_non_null(body);
    assert_int_equal(body->size, 5);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    assert_true(slice_is(piece, "hello"));
    assert_int_equal(body->next(body, false, &piece), BODY_END);
    assert_int_equal(body->next(body, true, &piece), BODY_END);
    body->free(body);
}

static void
the_buffer_is_empty_afterwards_and_of_use_again(void **state)
{
    struct buf text;
    struct body *body;

    (void)state;
    buf_init(&text, 5);
    buf_add_text(&text, "hello");

    body = body_of_buf(&text);

    assert_int_equal(text.size, 0);
    buf_add_text(&text, "again");
    assert_false(text.failed);
    assert_true(slice_is(buf_slice(&text), "again"));
    body->free(body);
    buf_fini(&text);
}

static void
an_empty_body_ends_at_once(void **state)
{
    struct buf text;
    struct slice piece;
    struct body *body;

    (void)state;
    buf_init(&text, 100);

    body = body_of_buf(&text);

    assert_int_equal(body->size, 0);
    assert_int_equal(body->next(body, false, &piece), BODY_END);
    body->free(body);
}

static void
a_text_that_was_cut_is_no_body(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 3);
    buf_add_text(&text, "hello");

    assert_null(body_of_buf(&text));

    buf_fini(&text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_in_memory_hands_out_its_bytes_once_and_ends),
        cmocka_unit_test(the_buffer_is_empty_afterwards_and_of_use_again),
        cmocka_unit_test(an_empty_body_ends_at_once),
        cmocka_unit_test(a_text_that_was_cut_is_no_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

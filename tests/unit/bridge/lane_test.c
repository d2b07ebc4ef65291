/*
 * lane_test.c - the marks of lanes with news.
 */
#include "broker/bridge/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
a_mark_is_taken_once(void **state)
{
    struct lane_marks marks = {NULL};
    struct lane a = {.set = NULL}, b = {.set = NULL};

    (void)state;
    assert_true(lane_mark(&a, &marks));
    assert_true(lane_mark(&b, &marks));
    assert_false(lane_mark(&a, &marks));

    assert_ptr_equal(lane_take_marks(&marks), &b);
    assert_ptr_equal(b.next_marked, &a);
    assert_null(a.next_marked);
    assert_null(lane_take_marks(&marks));
    assert_false(lane_mark(&a, &marks)); /* its log is not read yet */
    lane_unmark(&a);
    assert_true(lane_mark(&a, &marks));
    assert_ptr_equal(lane_take_marks(&marks), &a);
}

/* A lane may have its turn for another reason while its mark is in the stack.
 * It must not get in there twice: it would follow itself, for ever. */
static void
a_mark_that_is_not_taken_stays(void **state)
{
    struct lane_marks marks = {NULL};
    struct lane a = {.set = NULL};

    (void)state;
    lane_mark(&a, &marks);
    lane_unmark(&a);
    assert_false(lane_mark(&a, &marks));
    assert_ptr_equal(lane_take_marks(&marks), &a);
    assert_null(a.next_marked);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_is_taken_once),
        cmocka_unit_test(a_mark_that_is_not_taken_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * scan_test.c - cutting JSON text.
 */
#include "client/lib/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* entries are handed over as they came: strings may hold anything. */
static void
cuts_elements_as_they_stand(void **state)
{
    struct slice rest =
        SLICE(" [ {\"a\":\"]},[\\\"\\\\\"} ,1,\"x\",[[],{}] , null ]tail");
    static const char *const wanted[] = {
        "{\"a\":\"]},[\\\"\\\\\"}", "1", "\"x\"", "[[],{}]", "null",
    };
    struct slice value;

    (void)state;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_true(scan_element(&rest, &value));
        assert_true(slice_is(value, wanted[i]));
    }
    assert_false(scan_element(&rest, &value));
}

/* a member is found by its name, at the top only. */
static void
finds_a_member_at_the_top(void **state)
{
    struct slice object = SLICE(
        "{\"a\":{\"changes\":1},\"b\":\"changes\" , \"changes\" : [2] }\n");
    struct slice value;

    (void)state;
    assert_true(scan_member(object, "changes", &value));
    assert_true(slice_is(value, "[2]"));
    assert_false(scan_member(object, "other", &value));
    assert_false(scan_member(SLICE("{}"), "a", &value));
    assert_false(scan_member(SLICE("[]"), "a", &value));
}

/* text that ends too early, at every byte of it. */
static void
stays_inside_the_text(void **state)
{
    static const char text[] = "{\"a\" : [ {\"b\":\"\\\"\"}, [1] ] }";

    (void)state;
    for (size_t size = 0; size < sizeof(text); size++) {
        char *part = malloc(size ? size : 1);
        struct slice value;
        struct slice element;

        assert_non_null(part);
        memcpy(part, text, size);
        if (scan_member((struct slice){part, size}, "a", &value))
            while (scan_element(&value, &element))
                ;
        free(part);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_elements_as_they_stand),
        cmocka_unit_test(finds_a_member_at_the_top),
        cmocka_unit_test(stays_inside_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

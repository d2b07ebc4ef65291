/*
 * json_slices_test.c - cutting JSON text.
 */
#include "client/lib/json_slices.h"

#include <stdlib.h>

#include "tests/test.h"

/* entries are handed over as they came: strings may hold anything. */
TEST(cuts_elements_as_they_stand)
{
    struct slice rest =
        SLICE(" [ {\"a\":\"]},[\\\"\\\\\"} ,1,\"x\",[[],{}] , null ]tail");
    static const char *const wanted[] = {
        "{\"a\":\"]},[\\\"\\\\\"}", "1", "\"x\"", "[[],{}]", "null",
    };
    struct slice value;

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_true(json_slices_element(&rest, &value));
        assert_true(slice_is(value, wanted[i]));
    }
    assert_false(json_slices_element(&rest, &value));
}

/* a member is found by its name, at the top only. */
TEST(finds_a_member_at_the_top)
{
    struct slice object = SLICE(
        "{\"a\":{\"changes\":1},\"b\":\"changes\" , \"changes\" : [2] }\n");
    struct slice value;

    assert_true(json_slices_member(object, "changes", &value));
    assert_true(slice_is(value, "[2]"));
    assert_false(json_slices_member(object, "other", &value));
    assert_false(json_slices_member(SLICE("{}"), "a", &value));
    assert_false(json_slices_member(SLICE("[]"), "a", &value));
}

/* text that ends too early, at every byte of it. */
TEST(stays_inside_the_text)
{
    static const char text[] = "{\"a\" : [ {\"b\":\"\\\"\"}, [1] ] }";

    for (size_t size = 0; size < sizeof(text); size++) {
        char *part = malloc(size ? size : 1);
        struct slice value;
        struct slice element;

        assert_non_null(part);
        memcpy(part, text, size);
        if (json_slices_member((struct slice){part, size}, "a", &value))
            while (json_slices_element(&value, &element))
                ;
        free(part);
    }
}

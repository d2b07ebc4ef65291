#include "broker/http/accept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool
is_wanted(const char *accept)
{
    return accept_names(slice_of(accept), "text/event-stream");
}

static void
finds_the_type_wherever_it_stands(void **state)
{
    (void)state;
    assert_true(is_wanted("text/event-stream"));
    assert_true(is_wanted("Text/Event-Stream"));
    assert_true(is_wanted("text/html, text/event-stream"));
    assert_true(is_wanted(",\t text/event-stream ,"));
    assert_true(is_wanted("text/event-stream;charset=utf-8"));
    assert_true(is_wanted("a/b;c=\"x, y;q=0\\\"\", text/event-stream"));
}

/* RFC 9110 section 12.4.2: a quality of 0 means "not acceptable", whatever else
 * is small. */
static void
honours_qualities(void **state)
{
    (void)state;
    assert_true(is_wanted("text/event-stream;q=1"));
    assert_true(is_wanted("*/*, text/event-stream; q=0.001"));
    assert_true(is_wanted("text/event-stream; q=0.1, text/html"));
    assert_true(is_wanted("text/event-stream;q=nonsense"));
    assert_false(is_wanted("text/event-stream;q=0"));
    assert_false(is_wanted("text/event-stream ; charset=utf-8 ; Q=0.000"));
    assert_false(is_wanted("text/html, text/event-stream;q=0.0"));
}

/* Who takes anything has not asked for a stream. */
static void
does_not_count_ranges_and_other_types(void **state)
{
    (void)state;
    assert_false(is_wanted(""));
    assert_false(is_wanted(" , ;,"));
    assert_false(is_wanted("*/*"));
    assert_false(is_wanted("text/*"));
    assert_false(is_wanted("text/event-stream2"));
    assert_false(is_wanted("xtext/event-stream"));
    assert_false(is_wanted("text/html;x=\"text/event-stream\""));
    assert_false(is_wanted("text/html;x=\", text/event-stream"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_type_wherever_it_stands),
        cmocka_unit_test(honours_qualities),
        cmocka_unit_test(does_not_count_ranges_and_other_types),
    };

    return cmocka_run_group_tests_name("accept", tests, NULL, NULL);
}

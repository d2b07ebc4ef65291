#include "proto/accept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* RFC 9110 section 12.5.1. */
static void
chooses_what_the_client_likes_best(void **state)
{
    static const char *const offers[] = {"application/json", "application/xml",
                                         "text/xml"};

    static const struct {
        const char *header;
        int chosen;
    } rows[] = {
        {"", 0},
        {"  ", 0},
        {"*/*", 0},
        {"application/json", 0},
        {"application/xml", 1},
        {"APPLICATION/XML", 1},
        {"text/xml", 2},
        {"text/*", 2},
        {"application/*", 0},
        {"text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8",
         1},
        {"application/json;q=0.5, application/xml;q=0.501", 1},
        {"application/xml;q=1.0,application/json;q=1", 0},
        {"*/*;q=0.1, application/json;q=0", 1},
        {"application/json;q=0", -1},
        {"*/*, application/*;q=0", 2},
        {"application/xml;charset=utf-8;q=0.2, text/xml;q=0.3", 2},
        {"text/xml ; q=0.3 , application/json ; q=0.2", 2},
        {"image/png", -1},
        {"application/jso", -1},
        {"*", -1},
        {",,;;,", -1},
        {"application/json;x=\"a,b;q=0\"", 0},
        {"application/xml;x=\"\\\",application/json", 1},
        {"application/xml;q=nonsense", 1},
        {"text/xml;q=0.9999999", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int chosen = accept_choose(slice_of(rows[i].header), offers, 3);

        if (chosen != rows[i].chosen)
            fail_msg("%s: %d", rows[i].header, chosen);
    }
    assert_int_equal(accept_choose(SLICE(""), offers, 0), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_what_the_client_likes_best),
    };

    return cmocka_run_group_tests_name("accept", tests, NULL, NULL);
}

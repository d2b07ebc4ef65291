/*
 * failure_test.c - reasons are printable, even with hostile bytes of a peer.
 */
#include "client/lib/failure.h"

#include <string.h>

#include "tests/test.h"

static void
says(const char *text, const char *expected)
{
    struct failure why;

    assert_int_equal(failure_set(&why, TD_BROKEN, "%s", text), TD_BROKEN);
    assert_int_equal(why.rc, TD_BROKEN);
    assert_string_equal(why.text, expected);
}

TEST(what_others_wrote_gives_no_orders_to_a_terminal)
{
    says("a\033[31mb\nc\177d", "a [31mb c d");
    says("a\302\23331mb\302\200\302\237", "a  31mb    ");
    says("caf\303\251 \342\202\254 \302\240",
         "caf\303\251 \342\202\254 \302\240");
}

TEST(what_is_no_utf8_is_marked)
{
    says("a\377b\300\200c\303", "a?b??c?");
}

TEST(what_is_too_long_ends_with_a_whole_character)
{
    char text[2000] = "";
    struct failure why;
    size_t size = sizeof(why.text) - 1;

    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', 3);
        for (size_t i = 1 + shift; i + 4 < sizeof(text); i += 3)
            memcpy(text + i, "\342\202\254", 3);
        failure_set(&why, TD_IO, "%s", text);
        assert_int_equal(strlen(why.text), size - (size - 1 - shift) % 3);
        assert_memory_equal(why.text + strlen(why.text) - 3, "\342\202\254", 3);
    }
}

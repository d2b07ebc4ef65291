#include "proto/problem.h"

#include <errno.h>

#include "proto/buf.h"
#include "tests/test.h"

TEST(quotes_hostile_text_safely)
{
    assert_string_equal(problem_quote(SLICE("a\n\x1b[2J\xff\xc2\x85z")).text,
                        "a??[2J??z");
    assert_string_equal(problem_quote((struct slice){NULL, 0}).text, "");
    assert_string_equal(problem_quote(SLICE("\xc3\xa5\xed\xa0\x80")).text,
                        "\xc3\xa5???");
}

TEST(cuts_a_quote_between_characters)
{
    char text[PROBLEM_QUOTE_MAX + 2];
    struct problem_quote quote;

    memset(text, 'a', sizeof(text));
    memcpy(text + PROBLEM_QUOTE_MAX - 1, "\xc3\xa5", 2);
    quote = problem_quote((struct slice){text, sizeof(text)});

    assert_int_equal(strlen(quote.text), PROBLEM_QUOTE_MAX - 1 + 3);
    assert_string_equal(quote.text + PROBLEM_QUOTE_MAX - 2, "a...");
}

static void
says(const char *text, const char *expected)
{
    struct problem why = {.entry = 3, .is_limit = true};

    assert_int_equal(problem(&why, STATUS_BUSY, "%s", text), STATUS_BUSY);
    assert_int_equal(why.rc, STATUS_BUSY);
    assert_int_equal(why.entry, 3);
    assert_false(why.is_limit);
    assert_string_equal(why.text, expected);
}

TEST(a_full_buffer_is_no_want_of_memory)
{
    struct buf b = {.max = 4};
    struct problem why = {""};

    BUF_ADD(&b, "1234");
    assert_int_equal(problem_buf(&why, &b, "it"), STATUS_OK);
    BUF_ADD(&b, "5");
    assert_int_equal(problem_buf(&why, &b, "it"), STATUS_TOO_LARGE);
    assert_string_equal(why.text, "it is longer than 4 bytes");
    b.is_starved = true;
    assert_int_equal(problem_buf(&why, &b, "it"), STATUS_MEMORY);
    assert_string_equal(why.text, NO_MEMORY);
    buf_fini(&b);
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
    struct problem why;
    size_t size = sizeof(why.text) - 1;

    for (size_t shift = 0; shift < 3; shift++) {
        size_t whole = size - (size - 1 - shift) % 3;

        memset(text, 'a', 3);
        for (size_t i = 1 + shift; i + 4 < sizeof(text); i += 3)
            memcpy(text + i, "\342\202\254", 3);
        problem(&why, STATUS_IO, "%s", text);
        assert_int_equal(strlen(why.text), whole);
        assert_memory_equal(why.text + whole - 3, "\342\202\254", 3);
        problem_prefix(&why, STATUS_IO, "%s", "abc");
        assert_int_equal(strlen(why.text), whole);
        assert_memory_equal(why.text, "abca", 4);
    }
}

TEST(puts_words_before_the_reason)
{
    struct problem why = {"line 3", 0, 3};

    assert_int_equal(problem_prefix(&why, STATUS_MALFORMED,
                                    "the manifest of "
                                    "%s: ",
                                    "p.zip"),
                     STATUS_MALFORMED);
    assert_string_equal(why.text, "the manifest of p.zip: line 3");
    assert_int_equal(why.rc, STATUS_MALFORMED);
    assert_int_equal(why.line, 3);
}

TEST(says_that_no_memory_is_left)
{
    struct problem why = {"x", 1, 2};

    assert_int_equal(problem_memory(&why), STATUS_MEMORY);
    assert_int_equal(why.rc, STATUS_MEMORY);
    assert_string_equal(why.text, NO_MEMORY);
    problem_clear(&why);
    assert_int_equal(why.rc, STATUS_OK);
    assert_string_equal(why.text, "");
}

TEST(needs_nobody_who_asks)
{
    problem_set(NULL, "%d", 1);
    problem_errno(NULL, "cannot write", "x");
    problem_clear(NULL);
    assert_int_equal(problem(NULL, STATUS_IO, "x"), STATUS_IO);
    assert_int_equal(problem_prefix(NULL, STATUS_IO, "x"), STATUS_IO);
}

TEST(says_what_the_system_said)
{
    struct problem why = {""};

    errno = ENOENT;
    assert_int_equal(problem_errno(&why, "cannot read", "list.xml"), STATUS_IO);

    assert_string_equal(why.text,
                        "cannot read list.xml: No such file or directory");
    assert_int_equal(errno, ENOENT);
}

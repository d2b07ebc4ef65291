#include "proto/problem.h"

#include <errno.h>

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

TEST(cuts_a_sentence_that_is_too_long)
{
    struct problem why = {.entry = 3};
    char text[1000];

    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memcpy(text + sizeof(why.text) - 2, "\xc3\xa5", 2);
    assert_int_equal(problem(&why, STATUS_BUSY, "%s", text), STATUS_BUSY);

    assert_int_equal(strlen(why.text), sizeof(why.text) - 2);
    assert_int_equal(why.entry, 3);
}

TEST(needs_nobody_who_asks)
{
    problem_set(NULL, "%d", 1);
    problem_errno(NULL, "cannot write", "x");
    assert_int_equal(problem(NULL, STATUS_IO, "x"), STATUS_IO);
}

TEST(says_what_the_system_said)
{
    struct problem why = {""};

    errno = ENOENT;
    problem_errno(&why, "cannot read", "list.xml");

    assert_string_equal(why.text,
                        "cannot read list.xml: No such file or directory");
    assert_int_equal(errno, ENOENT);
}

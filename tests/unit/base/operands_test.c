/*
 * operands_test.c - the operands that a command's row names, and those that a
 * user gives.
 */
#include <string.h>

#include "base/commands/commands.h"
#include "tests/test.h"

#define NAMED_MAX 8

/* Each row: the operands of a command, and for a number of them the words that
 * they are, by index; "no": too few or too many. */
TEST(each_operand_gets_its_word)
{
    static const struct {
        const char *operands;
        size_t n;
        const char *words;
    } rows[] = {
        {NULL, 0, ""},
        {NULL, 1, "no"},
        {"SET-URL", 0, "no"},
        {"SET-URL", 1, "0"},
        {"SET-URL", 2, "no"},
        {"[SET-URL|SOURCE-URL] DIR", 0, "no"},
        {"[SET-URL|SOURCE-URL] DIR", 1, "1"},
        {"[SET-URL|SOURCE-URL] DIR", 2, "01"},
        {"[SET-URL|SOURCE-URL] DIR", 3, "no"},
        {"SET-URL [FILE|-|LOC]...", 1, "0"},
        {"SET-URL [FILE|-|LOC]...", 4, "0111"},
        {"SET-URL LOC...", 1, "no"},
        {"SET-URL LOC...", 3, "011"},
        {"[COMMAND]...", 0, ""},
        {"[COMMAND]...", 2, "00"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct command command = {.operands = rows[i].operands};
        struct operand words[COMMAND_OPERANDS_MAX];
        size_t word_of[NAMED_MAX];
        char found[NAMED_MAX + 1] = "no";
        size_t n_words = operands_read(&command, words);

        if (operands_assign(words, n_words, rows[i].n, word_of)) {
            for (size_t k = 0; k < rows[i].n; k++)
                found[k] = (char)('0' + word_of[k]);
            found[rows[i].n] = '\0';
        }
        if (strcmp(found, rows[i].words) != 0)
            fail_msg("row %zu: %s", i, found);
    }
}

TEST(a_word_has_names)
{
    const struct command command = {.operands = "SET-URL [FILE|-|LOC]..."};
    struct operand words[COMMAND_OPERANDS_MAX];

    assert_int_equal(operands_read(&command, words), 2);
    assert_true(operand_may_be(&words[0], "SET-URL"));
    assert_false(operand_may_be(&words[0], "SET"));
    assert_true(operand_may_be(&words[1], "FILE"));
    assert_true(operand_may_be(&words[1], "LOC"));
    assert_false(operand_may_be(&words[1], "DIR"));
    assert_true(words[1].is_optional);
    assert_true(words[1].may_repeat);
    assert_false(words[0].may_repeat);
}

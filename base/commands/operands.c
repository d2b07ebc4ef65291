/*
 * operands.c - the operands that a command's row names: "DIR [SET-URL]...".
 */
#include "base/commands/commands.h"

size_t
operands_read(const struct command *command, struct operand *words)
{
    struct slice rest = slice_of(command->operands ? command->operands : "");
    size_t n = 0;

    while (rest.size > 0 && n < COMMAND_OPERANDS_MAX) {
        struct slice name = slice_take(&rest, ' ');
        struct operand *word = &words[n++];

        *word = (struct operand){.is_optional = *name.data == '['};
        word->may_repeat =
            name.size > 3 && !memcmp(name.data + name.size - 3, "...", 3);
        if (word->may_repeat)
            name.size -= 3;
        if (word->is_optional)
            name = (struct slice){name.data + 1, name.size - 2};
        word->name = name;
    }
    return n;
}

bool
operand_may_be(const struct operand *operand, const char *name)
{
    struct slice rest = operand->name;

    while (rest.size > 0)
        if (slice_is(slice_take(&rest, '|'), name))
            return true;
    return false;
}

bool
operands_assign(const struct operand *words, size_t n_words, size_t n,
                size_t *word_of)
{
    size_t n_required = 0, n_done = 0, n_more;

    for (size_t i = 0; i < n_words; i++)
        n_required += !words[i].is_optional;
    if (n < n_required)
        return false;
    n_more = n - n_required;
    for (size_t i = 0; i < n_words; i++) {
        if (words[i].is_optional && n_more == 0)
            continue;
        n_more -= words[i].is_optional;
        word_of[n_done++] = i;
        for (; words[i].may_repeat && n_more > 0; n_more--)
            word_of[n_done++] = i;
    }
    return n_done == n;
}

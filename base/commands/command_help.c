/*
 * command_help.c - what --help and help print; the operands that a command's
 * row names: "DIR [SET-URL]...". And the manual page for scdoc: there a
 * paragraph is one line, because scdoc looks for lists and tables where a line
 * begins.
 */
#include "base/commands/command_help.h"

static const struct option help_row = {"help", .type = OPTION_WISH,
                                       .help = "print this; -h is the same"};

/* Operands */

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

/* Options and groups */

size_t
command_n_options(const struct command *command)
{
    return command->options ? command->options->n : 0;
}

struct options
command_options(const struct program *program, const struct command *command,
                struct option *rows)
{
    const struct options *tables[] = {
        command->options,
        command->is_plain ? NULL : program->shared,
        command == program->start ? NULL
                                  : &(const struct options){&help_row, 1},
    };
    size_t n = 0;

    for (size_t i = 0; i < N_ELEMENTS(tables); i++)
        for (size_t k = 0; tables[i] && k < tables[i]->n; k++)
            if (n < OPTIONS_MAX)
                rows[n++] = tables[i]->rows[k];
    return (struct options){rows, n};
}

static bool
command_is_of_group(const struct command *command, const char *group)
{
    size_t size = strlen(group);

    return !strncmp(command->name, group, size) && command->name[size] == ' ';
}

bool
command_is_group(const struct program *program, const char *word)
{
    for (size_t i = 0; program->commands[i]; i++)
        if (command_is_of_group(program->commands[i], word))
            return true;
    return false;
}

static void
command_examples(const char *examples, const char *before, FILE *to)
{
    while (*examples) {
        size_t size = strcspn(examples, "\n");

        fprintf(to, "%s%.*s\n", before, (int)size, examples);
        examples += size + (examples[size] == '\n');
    }
}

/* `name` is that of the program, if the lines lack it. */
static void
print_examples(const char *examples, const char *name, FILE *to)
{
    char before[32] = "  ";

    if (!examples)
        return;
    if (name)
        snprintf(before, sizeof(before), "  %s ", name);
    fprintf(to, "\nExamples:\n");
    command_examples(examples, before, to);
}

/* Printing */

static void
print_section(const char *text, FILE *to)
{
    if (!text)
        return;
    fputc('\n', to);
    while (*text)
        if (*text == ' ' || *text == '\n') {
            size_t size = strcspn(text, "\n");

            fprintf(to, "%.*s\n", (int)size, text);
            text += size + (text[size] == '\n');
        } else {
            text = options_wrap(to, text, 0, "");
        }
}

void
command_help(const struct program *program, const struct command *command,
             FILE *to)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);
    struct options own = {rows, command_n_options(command)};
    struct options shared = {rows + own.n, options.n - own.n};
    const struct operand_row *row = program->operands;
    struct operand words[COMMAND_OPERANDS_MAX];
    size_t n = operands_read(command, words);

    fprintf(to, "usage: %s%s%s%s%s", program->name, command->name[0] ? " " : "",
            command->name, command->operands ? " " : "",
            command->operands ? command->operands : "");
    for (size_t i = 0; i < own.n; i++)
        if (rows[i].is_required)
            fprintf(to, " --%s %s", rows[i].name, rows[i].argument);
    fprintf(to, " [OPTION]...\n");
    if (command == program->start)
        fprintf(to, "       %s COMMAND ...        %s help lists them\n",
                program->name, program->name);
    print_section(command->help, to);
    fputc('\n', to);
    for (; row && row->name; row++)
        for (size_t i = 0; i < n; i++)
            if (operand_may_be(&words[i], row->name)) {
                options_help_row(row->name, NULL, row->help, to);
                break;
            }
    options_help(&own, to);
    if (own.n > 0 && shared.n > 0)
        fputc('\n', to);
    options_help(&shared, to);
    print_section(command->more, to);
    print_examples(command->examples, command->is_plain ? program->name : NULL,
                   to);
    if (!command->is_plain)
        print_section(program->footer, to);
}

void
command_help_group(const struct program *program, const char *group, FILE *to)
{
    for (size_t i = 0; program->commands[i]; i++) {
        const struct command *command = program->commands[i];

        if (!group || command_is_of_group(command, group))
            options_help_row(command->name, NULL, command->help, to);
    }
}

void
command_help_all(const struct program *program, FILE *to)
{
    fprintf(to, "usage: %s COMMAND [OPERAND]... [OPTION]...\n", program->name);
    if (program->start)
        fprintf(to, "       %s [OPTION]...\n", program->name);
    print_section(program->more, to);
    fprintf(to, "\n");
    command_help_group(program, NULL, to);
    fprintf(to, "\n%s help COMMAND, or %s COMMAND -h, says more.\n",
            program->name, program->name);
    print_examples(program->examples, NULL, to);
    print_section(program->footer, to);
}

/* The manual page */

/* The characters that scdoc reads as markup. */
#define MARKUP "\\*_`~+#;[]|-.!"

/* Prints a paragraph as one line; returns what follows it (options_wrap). */
static const char *
manual_paragraph(const char *text, FILE *to)
{
    bool is_first = true;

    for (; *text; text++, is_first = false) {
        if (*text == '\n' &&
            (text[1] == '\n' || text[1] == ' ' || text[1] == '\0')) {
            text++;
            break;
        }
        if (*text == '\n')
            fputc(' ', to);
        else if (strchr("\\*_", *text) || (is_first && strchr(MARKUP, *text)))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
    fputc('\n', to);
    return text;
}

static void
manual_text(const char *text, FILE *to)
{
    bool is_literal = false;

    for (; text && *text;) {
        bool begins_literal = *text == ' ';

        if (begins_literal != is_literal)
            fprintf(to, is_literal ? "```\n\n" : "\n```\n");
        is_literal = begins_literal;
        if (*text == ' ' || *text == '\n') {
            size_t size = strcspn(text, "\n");

            fprintf(to, "%.*s\n", (int)size, text);
            text += size + (text[size] == '\n');
        } else {
            text = manual_paragraph(text, to);
        }
    }
    if (is_literal)
        fprintf(to, "```\n");
}

static void
manual_section(const char *title, const char *text, FILE *to)
{
    if (!text)
        return;
    fprintf(to, "\n# %s\n\n", title);
    manual_text(text, to);
}

static void
manual_examples(const char *examples, const char *before, FILE *to)
{
    if (!examples)
        return;
    fprintf(to, "\n```\n");
    command_examples(examples, before, to);
    fprintf(to, "```\n");
}

static void
manual_options(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct option *o = &options->rows[i];
        char text[OPTION_DESCRIPTION_SIZE];

        option_describe(o, text, sizeof(text));
        fprintf(to, "\n*--%s*", o->name);
        if (o->argument)
            fputc(' ', to);
        manual_paragraph(o->argument ? o->argument : "", to);
        fputc('\t', to);
        manual_paragraph(text, to);
    }
}

void
manual_print(const struct program *program, FILE *to)
{
    fprintf(to, "%s(%d)\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n", program->name,
            program->section, program->name, program->purpose);
    if (program->start)
        fprintf(to, "*%s* [OPTION]...\n\n", program->name);
    fprintf(to, "*%s* COMMAND [OPERAND]... [OPTION]...\n", program->name);
    manual_section("DESCRIPTION", program->more, to);
    if (program->start) {
        fputc('\n', to);
        manual_text(program->start->help, to);
        fprintf(to, "\n# OPTIONS\n");
        manual_options(program->start->options, to);
        fputc('\n', to);
        manual_text(program->start->more, to);
    }
    fprintf(to, "\n# COMMANDS\n");
    for (size_t i = 0; program->commands[i]; i++) {
        const struct command *command = program->commands[i];
        char before[32];

        /* scdoc takes a heading as it is. */
        fprintf(to, "\n## %s %s %s\n\n", program->name, command->name,
                command->operands ? command->operands : "");
        manual_paragraph(command->help, to);
        if (command->options)
            manual_options(command->options, to);
        if (command->more) {
            fputc('\n', to);
            manual_text(command->more, to);
        }
        snprintf(before, sizeof(before), "%s ", program->name);
        manual_examples(command->examples, command->is_plain ? before : "", to);
    }
    if (program->shared) {
        fprintf(to, "\n# OPTIONS OF ALL COMMANDS\n");
        manual_options(program->shared, to);
    }
    if (program->operands)
        fprintf(to, "\n# OPERANDS\n");
    for (const struct operand_row *row = program->operands; row && row->name;
         row++) {
        fprintf(to, "\n*%s*\n\t", row->name);
        manual_paragraph(row->help, to);
    }
    manual_section("NOTES", program->footer, to);
    if (program->examples)
        fprintf(to, "\n# EXAMPLES\n");
    manual_examples(program->examples, "", to);
    if (program->start)
        manual_examples(program->start->examples, "", to);
    fprintf(to, "\n# SEE ALSO\n\n%s\n", program->see_also);
}

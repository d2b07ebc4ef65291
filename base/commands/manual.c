/*
 * manual.c - prints a manual page for scdoc: a paragraph is one line, because
 * scdoc looks for lists and tables where a line begins.
 */

#include "base/commands/command_help.h"

/* The characters that scdoc reads as markup. */
#define MARKUP "\\*_`~+#;[]|-.!"

/* Prints a paragraph as one line; returns what follows it (options_wrap). */
static const char *
print_paragraph(const char *text, FILE *to)
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
print_text(const char *text, FILE *to)
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
            text = print_paragraph(text, to);
        }
    }
    if (is_literal)
        fprintf(to, "```\n");
}

static void
print_section(const char *title, const char *text, FILE *to)
{
    if (!text)
        return;
    fprintf(to, "\n# %s\n\n", title);
    print_text(text, to);
}

static void
print_examples(const char *examples, const char *before, FILE *to)
{
    if (!examples)
        return;
    fprintf(to, "\n```\n");
    command_examples(examples, before, to);
    fprintf(to, "```\n");
}

static void
print_options(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct option *o = &options->rows[i];
        char text[OPTION_DESCRIPTION_SIZE];

        option_describe(o, text, sizeof(text));
        fprintf(to, "\n*--%s*", o->name);
        if (o->argument)
            fputc(' ', to);
        print_paragraph(o->argument ? o->argument : "", to);
        fputc('\t', to);
        print_paragraph(text, to);
    }
}

static void
print_command(const struct program *program, const struct command *command,
              FILE *to)
{
    char before[32];

    /* scdoc takes a heading as it is. */
    fprintf(to, "\n## %s %s %s\n\n", program->name, command->name,
            command->operands ? command->operands : "");
    print_paragraph(command->help, to);
    if (command->options)
        print_options(command->options, to);
    if (command->more) {
        fputc('\n', to);
        print_text(command->more, to);
    }
    snprintf(before, sizeof(before), "%s ", program->name);
    print_examples(command->examples, command->is_plain ? before : "", to);
}

void
manual_print(const struct program *program, FILE *to)
{
    fprintf(to, "%s(%d)\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n", program->name,
            program->section, program->name, program->purpose);
    if (program->start)
        fprintf(to, "*%s* [OPTION]...\n\n", program->name);
    fprintf(to, "*%s* COMMAND [OPERAND]... [OPTION]...\n", program->name);
    print_section("DESCRIPTION", program->more, to);
    if (program->start) {
        fputc('\n', to);
        print_text(program->start->help, to);
        fprintf(to, "\n# OPTIONS\n");
        print_options(program->start->options, to);
        fputc('\n', to);
        print_text(program->start->more, to);
    }
    fprintf(to, "\n# COMMANDS\n");
    for (size_t i = 0; program->commands[i]; i++)
        print_command(program, program->commands[i], to);
    if (program->shared) {
        fprintf(to, "\n# OPTIONS OF ALL COMMANDS\n");
        print_options(program->shared, to);
    }
    if (program->operands)
        fprintf(to, "\n# OPERANDS\n");
    for (const struct operand_row *row = program->operands; row && row->name;
         row++) {
        fprintf(to, "\n*%s*\n\t", row->name);
        print_paragraph(row->help, to);
    }
    print_section("NOTES", program->footer, to);
    if (program->examples)
        fprintf(to, "\n# EXAMPLES\n");
    print_examples(program->examples, "", to);
    if (program->start)
        print_examples(program->start->examples, "", to);
    fprintf(to, "\n# SEE ALSO\n\n%s\n", program->see_also);
}

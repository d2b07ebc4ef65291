#include "broker/commands/subcommand.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "broker/commands/backup_command.h"
#include "broker/commands/check_command.h"
#include "proto/problem.h"

static const struct subcommand *const commands[] = {
    &token_add_command,    &token_list_command,
    &token_show_command,   &token_revoke_command,
    &token_rotate_command, &token_check_command,
    &backup_command,       &restore_command,
    &check_command,        NULL, /* the end */
};

int
subcommand_fail(const struct subcommand *command, enum status rc,
                const struct problem *why)
{
    fprintf(stderr, "tidingsd %s: %s\n", command->name, why->text);
    return rc == STATUS_INVALID ? SUBCOMMAND_USAGE : SUBCOMMAND_FAILED;
}

int
subcommand_end(const struct subcommand *command)
{
    if (!fflush(stdout) && !ferror(stdout))
        return SUBCOMMAND_DONE;
    fprintf(stderr, "tidingsd %s: cannot write to standard output\n",
            command->name);
    return SUBCOMMAND_FAILED;
}

static void
print_usage(const struct subcommand *command, FILE *to)
{
    fprintf(to, "usage: tidingsd %s%s%s [OPTION]...\n", command->name,
            command->operands[0] ? " " : "", command->operands);
}

static enum status
check_operands(const struct subcommand *command, const struct arguments *given,
               struct problem *why)
{
    if (given->n_operands >= command->operands_least)
        return STATUS_OK;
    return problem(why, STATUS_INVALID, "it needs %s; --help says more",
                   command->operands);
}

/* Reads the arguments behind the name; `argv[0]` is its last word. */
static int
run_row(const struct subcommand *command, int argc, char **argv)
{
    struct arguments given;
    struct problem why = {""};
    enum status rc = options_arguments(&command->options, argc, argv,
                                       command->operands_most, &given, &why);
    void *values = NULL;
    int result;

    if (!rc && given.wish) {
        print_usage(command, stdout);
        printf("\n%s\n\n", command->about);
        options_help(&command->options, stdout);
        return subcommand_end(command);
    }
    if (!rc)
        rc = check_operands(command, &given, &why);
    if (!rc) {
        values = calloc(1, command->size ? command->size : 1);
        rc = values ? options_set_defaults(&command->options, values, &why)
                    : problem_memory(&why);
    }
    if (!rc)
        rc = options_take(&command->options, &given, values, &why);
    result =
        rc ? subcommand_fail(command, rc, &why) : command->run(&given, values);
    free(values);
    return result;
}

/* The number of arguments that the name of the command takes; 0: it is another
 * one. */
static int
match_name(const struct subcommand *command, int argc, char **argv)
{
    const char *second = strchr(command->name, ' ');
    size_t size =
        second ? (size_t)(second - command->name) : strlen(command->name);

    if (strlen(argv[1]) != size || memcmp(argv[1], command->name, size) != 0)
        return 0;
    if (!second)
        return 1;
    return argc > 2 && !strcmp(argv[2], second + 1) ? 2 : 0;
}

/* Prints the lines of the commands whose name begins with `first`; NULL: all.
 * Returns how many. */
static size_t
print_commands(const char *first, FILE *to)
{
    size_t n = 0;

    for (size_t i = 0; commands[i]; i++) {
        size_t size = first ? strlen(first) : 0;

        if (first && (strncmp(commands[i]->name, first, size) != 0 ||
                      commands[i]->name[size] != ' '))
            continue;
        fprintf(to, "  tidingsd %s%s%s\n", commands[i]->name,
                commands[i]->operands[0] ? " " : "", commands[i]->operands);
        n++;
    }
    return n;
}

static int
refuse_name(const char *name, bool has_second)
{
    struct suggestion s;

    if (print_commands(name, stderr)) {
        fprintf(stderr, "tidingsd %s: %s: the commands are above\n", name,
                has_second ? "unknown command" : "incomplete command");
        return SUBCOMMAND_USAGE;
    }
    suggest_begin(&s, slice_of(name));
    for (size_t i = 0; commands[i]; i++)
        suggest_consider(&s, commands[i]->name);
    fprintf(stderr, "tidingsd: there is no command \"%s\"",
            problem_quote(slice_of(name)).text);
    if (s.nearest)
        fprintf(stderr, "; did you mean \"%s\"?\n", s.nearest);
    else
        fprintf(stderr, "; tidingsd help lists them\n");
    return SUBCOMMAND_USAGE;
}

static int
list_commands(void)
{
    printf("Commands of tidingsd, each with its own --help; without one it "
           "serves.\n\n");
    print_commands(NULL, stdout);
    return fflush(stdout) || ferror(stdout) ? SUBCOMMAND_FAILED
                                            : SUBCOMMAND_DONE;
}

int
subcommand_run(int argc, char **argv)
{
    if (argc < 2 || *argv[1] == '-')
        return -1;
    if (!strcmp(argv[1], "help"))
        return list_commands();
    for (size_t i = 0; commands[i]; i++) {
        int words = match_name(commands[i], argc, argv);

        if (words)
            return run_row(commands[i], argc - words, argv + words);
    }
    return refuse_name(argv[1], argc > 2);
}

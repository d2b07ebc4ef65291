/*
 * subcommand.h - what tidingsd does beside serving: `tidingsd NAME ...`.
 *
 * A command is a row in subcommand.c and a file NAME_command.c. Its options are
 * rows like those of the broker (base/options.h); so its --help and its errors
 * are made here, once.
 */
#ifndef BROKER_COMMANDS_SUBCOMMAND_H
#define BROKER_COMMANDS_SUBCOMMAND_H

#include <stddef.h>
#include <stdio.h>

#include "base/options.h"

/* Exit statuses. */
enum { SUBCOMMAND_DONE, SUBCOMMAND_FAILED, SUBCOMMAND_USAGE };

struct subcommand {
    const char *name;     /* "backup", or with a second word: "token add" */
    const char *operands; /* in its usage: "DIR"; "": none */
    const char *about;    /* for --help: lines of at most 80 letters */
    struct options options;
    size_t operands_least, operands_most; /* up to OPERANDS_MAX */

    /* Does it, with values of the options; prints its own errors
     * (subcommand_fail). Returns an exit status. */
    int (*run)(const struct arguments *given, void *values);
    size_t size; /* of the struct of the values */
};

/* The row that every command has. */
#define SUBCOMMAND_HELP                                    \
    {                                                      \
        "help", NULL, OPTION_WISH, 0, 0, 0, 0, NULL, NULL, \
            "print this, then end"                         \
    }

/* token_command.c */
extern const struct subcommand token_add_command, token_list_command,
    token_show_command, token_revoke_command, token_rotate_command,
    token_check_command;

/* Prints the problem as "tidingsd NAME: ...". Returns SUBCOMMAND_USAGE for
 * STATUS_INVALID, else SUBCOMMAND_FAILED. */
int subcommand_fail(const struct subcommand *command, enum status rc,
                    const struct problem *why);

/* Ends a command that has printed: SUBCOMMAND_FAILED if that was not possible.
 */
int subcommand_end(const struct subcommand *command);

/* Runs the command of the first arguments; "help" lists all. Returns its exit
 * status; -1: the first argument is an option, or missing. */
int subcommand_run(int argc, char **argv);

#endif

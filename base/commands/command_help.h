/*
 * command_help.h - what is made of a table of commands: --help and help, the
 * manual page, and what makes a shell complete names of commands and options,
 * the possible values of options, names of files.
 */
#pragma once

#include "base/commands/commands.h"

/* True if a command is of that group. */
bool command_is_group(const struct program *program, const char *word);

/* Prints what `--help` of a command says. */
void command_help(const struct program *program, const struct command *command,
                  FILE *to);

/* The options of a command: its own, those of all commands, --help; `rows` has
 * room for OPTIONS_MAX. */
struct options command_options(const struct program *program,
                               const struct command *command,
                               struct option *rows);

/* Prints what `help` says, with a line for each command. */
void command_help_all(const struct program *program, FILE *to);

/* Prints the lines of the commands of a group; NULL: of all commands. */
void command_help_group(const struct program *program, const char *group,
                        FILE *to);

/* Prints the manual page of a program, as source for scdoc. */
void manual_print(const struct program *program, FILE *to);

/* The names of the shells, as an operand: "bash|zsh|fish". */
#define COMPLETION_SHELLS "bash|zsh|fish"

/* Prints the file for a shell. False: there is none for it. */
bool completion_print(const struct program *program, const char *shell,
                      FILE *to);

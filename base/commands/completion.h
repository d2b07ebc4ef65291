/*
 * completion.h - prints what makes a shell complete the commands of a program:
 * names of commands and options, the possible values of options, names of
 * files.
 */
#ifndef BASE_COMMANDS_COMPLETION_H
#define BASE_COMMANDS_COMPLETION_H

#include "base/commands/commands.h"

/* The names of the shells, as an operand: "bash|zsh|fish". */
#define COMPLETION_SHELLS "bash|zsh|fish"

/* Prints the file for a shell. False: there is none for it. */
bool completion_print(const struct program *program, const char *shell,
                      FILE *to);

#endif

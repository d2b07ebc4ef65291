/*
 * command_table.h - the commands of tidingsd: `tidingsd NAME ...`, and serving,
 * which has no name.
 *
 * A command is a row (base/commands/commands.h) in a file NAME_command.c, named
 * by command_rows.h and command_table.c.
 */
#pragma once

#include "proto/c.h"

/* Call it first: commands_begin. */
void command_table_begin(void);

/* Runs the command of the first arguments, which begin with its name. Returns
 * the exit code. */
int command_table_run(int argc, char **argv);

/* Prints what tidingsd --help says. */
void command_table_help(FILE *to);

/* Ends a program that has printed: returns its exit code. */
int command_table_end(void);

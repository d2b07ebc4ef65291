/*
 * manual.h - the manual page of a program, as source for scdoc.
 */
#ifndef BASE_COMMANDS_MANUAL_H
#define BASE_COMMANDS_MANUAL_H

#include "base/commands/commands.h"

void manual_print(const struct program *program, FILE *to);

#endif

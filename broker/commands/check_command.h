/*
 * check_command.h - `tidingsd check`.
 */
#ifndef BROKER_COMMANDS_CHECK_COMMAND_H
#define BROKER_COMMANDS_CHECK_COMMAND_H

#include "broker/commands/subcommand.h"

extern const struct subcommand check_command;

#endif

/*
 * backup_command.h - tidingsd backup, tidingsd restore: broker/backup.
 */
#ifndef BROKER_COMMANDS_BACKUP_COMMAND_H
#define BROKER_COMMANDS_BACKUP_COMMAND_H

#include "broker/commands/subcommand.h"

extern const struct subcommand backup_command, restore_command;

#endif

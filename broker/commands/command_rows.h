/*
 * command_rows.h - the rows of the commands of tidingsd.
 */
#pragma once

#include "base/commands/commands.h"

/* backup_command.c */
extern const struct command backup_command, restore_command;

/* Prints a file that a backup lacks; `user` is the command. */
void command_missing(const char *text, void *user);

/* The exit code of a command that lacks `n` files, which it prints, of the
 * broker at `from` ("": of this machine). */
enum exit_code command_end_missing(const struct command *command, uint64_t n,
                                   const char *from);

/* bucket_command.c */
extern const struct command bucket_check_command;

/* check_command.c */
extern const struct command check_command;

/* cluster_command.c */
extern const struct command cluster_init_command, cluster_status_command,
    cluster_leave_command, cluster_mend_command, cluster_join_command;

/* key_command.c */
extern const struct command key_show_command, key_rotate_command;

/* postgresql_command.c */
extern const struct command postgresql_init_command;

/* token_command.c */
extern const struct command token_add_command, token_list_command,
    token_show_command, token_revoke_command, token_rotate_command,
    token_check_command, token_open_again_command;

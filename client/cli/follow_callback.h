/*
 * follow_callback.h - tidings follow --callback-listen: a hub's deliveries.
 */
#ifndef CLIENT_CLI_FOLLOW_CALLBACK_H
#define CLIENT_CLI_FOLLOW_CALLBACK_H

#include "client/cli/follow_arguments.h"

/* As td_follow with `args`, at a callback; returns the exit code, and has
 * printed the reason. */
enum exit_code follow_at_callback(struct td_client *client,
                                  const struct follow_args *args,
                                  td_message_fn *on_message, void *user);

#endif

/*
 * follow_callback.h - tidings follow --callback-listen: told by a hub.
 */
#ifndef CLIENT_CLI_FOLLOW_CALLBACK_H
#define CLIENT_CLI_FOLLOW_CALLBACK_H

#include "client/cli/follow_args.h"

/* As td_follow with `args`, at a callback; returns how the program ends, and
 * has said why. */
enum exit_code follow_at_callback(struct td_client *client,
                                  const struct follow_args *args,
                                  td_message_fn *on_message, void *user);

#endif

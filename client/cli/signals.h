/*
 * signals.h - SIGINT and SIGTERM end a command gracefully.
 *
 * A process has one command, so there is one of it.
 */
#ifndef CLIENT_CLI_SIGNALS_H
#define CLIENT_CLI_SIGNALS_H

#include <stdbool.h>

#include "client/tidings.h"

/* Has both signals call `stop(user)` from now on: within a signal handler, so
 * it may only call what is safe there (td_stop). */
void signals_begin(void (*stop)(void *user), void *user);

/* The same for a handle: td_stop. */
void signals_stop_client(struct td_client *client);

/* Ignores both signals from now on: `user` may be freed. */
void signals_end(void);

/* True if one of them came. */
bool signals_came(void);

/* A write to a closed pipe fails instead of ending the process. */
void signals_ignore_pipe(void);

#endif

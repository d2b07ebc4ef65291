/*
 * execute.h - a command of the user's for each change: /bin/sh -c COMMAND.
 *
 * What the change is reaches it as its standard input, a line, and in the
 * environment: TIDINGS_SEQ, TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME,
 * TIDINGS_POSITION; "" where there is none. It is never part of the command, so
 * that no loc can have the shell do anything.
 */
#ifndef CLIENT_CLI_EXECUTE_H
#define CLIENT_CLI_EXECUTE_H

#include <signal.h>
#include <stdbool.h>

#include "client/tidings.h"

struct execution {
    const char *command;
    const char *set; /* URL */
    const char *seq; /* NULL: none */
    const char *change;
    const char *loc;
    const char *datetime;
    const char *position;
    const char *line; /* with its newline; "": nothing to read */
    size_t size;
};

/* Runs it and waits for its end. False: it failed, which is said on standard
 * error unless `*is_interrupted`. */
bool execute(const struct execution *execution,
             const volatile sig_atomic_t *is_interrupted);

#endif

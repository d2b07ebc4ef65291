/*
 * run_command.h - a command of the user's for each change: /bin/sh -c COMMAND.
 *
 * The command gets the change as a line on its standard input, and in the
 * environment: TIDINGS_SEQ, TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME,
 * TIDINGS_POSITION, TIDINGS_MEMENTO; "" if there is none. The change is never
 * part of the command, so that no loc can make the shell run anything.
 */
#ifndef CLIENT_CLI_RUN_COMMAND_H
#define CLIENT_CLI_RUN_COMMAND_H

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
    const char *memento; /* URL of this very version */
    const char *line;    /* with its newline; "": nothing to read */
    size_t size;
};

/* Runs it and waits for its end. False: it failed; prints the reason, unless a
 * signal ends the program (signals_came). */
bool execute(const struct execution *execution);

#endif

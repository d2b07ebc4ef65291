/*
 * confirm.h - asks the user before something is lost.
 */
#ifndef CLIENT_CLI_CONFIRM_H
#define CLIENT_CLI_CONFIRM_H

#include "client/cli/cli.h"

/* EXIT_GOOD if there is a terminal to ask on; else prints "WHAT: give --yes, or
 * let it ask on a terminal" and returns EXIT_USAGE. */
enum exit_code confirm_can_ask(const char *what);

/* Asks the question, "Delete it", on standard error. EXIT_GOOD: the user types
 * yes; else prints "nothing was " and `done`, and returns EXIT_FAILED. */
enum exit_code confirm(const char *done, const char *question, ...)
    __attribute__((format(printf, 2, 3)));

#endif

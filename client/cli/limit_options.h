/*
 * limit_options.h - the options that limit what a source can make a command
 * read and write.
 *
 * A command has them if its table has their rows. main.c reads them, and
 * open_client sets them.
 */
#ifndef CLIENT_CLI_LIMIT_OPTIONS_H
#define CLIENT_CLI_LIMIT_OPTIONS_H

#include <stdbool.h>

#include "client/cli/cli.h"

/* For all commands that read sources. */
#define LIMIT_ROWS                                                      \
    {"min-free", "BYTES", "stop where the disk has less; 1G"},          \
    {                                                                   \
        "max-entries", "N", "stop where there are more resources; none" \
    }

#define N_LIMIT_ROWS 2

/* For those that fetch the resources, too. */
#define MIRROR_LIMIT_ROWS                                                      \
    {"max-file", "BYTES", "give up a resource that is longer; none"},          \
        {"max-total", "BYTES", "stop where the mirror would be larger; none"}, \
        LIMIT_ROWS

#define N_MIRROR_LIMIT_ROWS (2 + N_LIMIT_ROWS)

/* Reads the limits among the options of a command; `given` has the value of
 * each option, or NULL. A limit that the command does not have is 0. False: a
 * value makes no sense; this function has reported it. */
bool limits_read(const struct option_row *options, const char *const *given,
                 struct td_limits *limits);

#endif

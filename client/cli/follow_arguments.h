/*
 * follow_arguments.h - reads the command line of tidings follow.
 */
#ifndef CLIENT_CLI_FOLLOW_ARGUMENTS_H
#define CLIENT_CLI_FOLLOW_ARGUMENTS_H

#include <stdbool.h>

#include "client/cli/change_lines.h"
#include "client/cli/cli.h"

extern const struct option_row follow_options[];

/* Lent from the command line, but for the filters. */
struct follow_args {
    const char *url;
    const char *state;           /* path; NULL: none */
    const char *command;         /* --exec; NULL: prints lines */
    const struct lines *lines;   /* format of output or the command's input */
    const char *callback_listen; /* "HOST:PORT"; NULL: no callback */
    const char *callback_url;    /* NULL: as it listens */
    unsigned long long count;    /* 0: no end */
    bool is_verbose;
    struct td_follow_options how;
    struct td_filter *filters;
};

/* Prints mistakes of the command line. Call follow_args_fini in any case. */
enum exit_code follow_args_read(struct follow_args *args,
                                const struct arguments *arguments);
void follow_args_fini(struct follow_args *args);

#endif

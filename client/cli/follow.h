/*
 * follow.h - prints changes as they come: tidings follow, tidings tail.
 */
#ifndef CLIENT_CLI_FOLLOW_H
#define CLIENT_CLI_FOLLOW_H

#include <stdbool.h>

#include "client/cli/cli.h"

struct lines;

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
    bool skips_bad; /* --skip-bad */
    struct td_follow_options how;
    struct td_filter *filters;
};

/* Sets the format of the lines: text, json or xml. False: it is none of these;
 * this has said so. */
bool follow_args_format(struct follow_args *args, const char *format);

/* Follows the sets of args->url, and prints a line for each change or runs its
 * command, to the end that `args` asks for. Keeps a handle, which later calls
 * use, until the process ends. */
enum exit_code follow_changes(const struct follow_args *args,
                              const struct arguments *arguments);

#endif

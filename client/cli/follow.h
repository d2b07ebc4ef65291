/*
 * follow.h - prints changes as they come: tidings follow, tidings tail.
 */
#ifndef CLIENT_CLI_FOLLOW_H
#define CLIENT_CLI_FOLLOW_H

#include <stdbool.h>

#include "client/cli/cli.h"

struct lines;

/* The values of options, and what follows of them; lent from the command line,
 * but for the filters. */
struct follow_args {
    const char *url;
    const char *state;           /* path; NULL: none */
    const char *command;         /* --exec; NULL: prints lines */
    unsigned format;             /* text 1, json 2, xml 3; 0: not given */
    const struct lines *lines;   /* format of output or the command's input */
    const char *callback_listen; /* "HOST:PORT"; NULL: no callback */
    const char *callback_url;    /* NULL: as it listens */
    uint64_t count;              /* 0: no end */
    bool from_start;
    bool is_verbose;
    bool skips_bad; /* --skip-bad */
    struct td_limits limits;
    struct td_follow_options how;
    struct td_filter *filters;
};

/* Sets the lines of a format. */
void follow_args_format(struct follow_args *args, unsigned format);

/* Follows the sets of args->url, and prints a line for each change or runs its
 * command, to the end that `args` asks for. Keeps a handle, which later calls
 * use, until the process ends. */
enum exit_code follow_changes(const struct follow_args *args,
                              const struct arguments *arguments);

#endif

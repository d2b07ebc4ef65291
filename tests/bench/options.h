/*
 * options.h - the command line of a program that measures a server:
 *
 *     bench_get [OPTION]... -- SERVER [ARGUMENT]...
 *
 * A program has a table of its own options; `struct common` has those that most
 * of them share.
 */
#ifndef TESTS_BENCH_OPTIONS_H
#define TESTS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* "--name", and where its value goes: exactly one of the pointers is set. */
struct option_row {
    const char *name;  /* NULL ends the table */
    bool *flag;        /* becomes true; the option has no value */
    const char **text; /* lent from argv */
    unsigned *count;
    size_t *size;
    double *number;
    double min, max; /* of count, size and number */
};

/* The caller sets the defaults. A program without --label, --seconds or --warm
 * leaves that member 0. */
struct common {
    const char *label;   /* --label */
    double seconds;      /* --seconds: how long is measured */
    double warm_seconds; /* --warm: how long before that */
    int server_core;     /* --server-core; or NO_CORE */
    int own_core;        /* --own-core; or NO_CORE */
    char **command;      /* the server's: argv from behind the options on */
};

/* Reads all of argv, and stops at the first argument that is no option. --help
 * prints `usage` and ends the program with 0; an unknown option or a missing
 * command prints it to standard error and ends it with 2. */
void options_parse(int argc, char **argv, const char *usage,
                   const struct option_row *rows, struct common *common);

#endif

/*
 * find_sets.h - finds the sets behind the URL of a command line.
 */
#ifndef CLIENT_CLI_FIND_SETS_H
#define CLIENT_CLI_FIND_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/cli.h"

struct source_sets {
    char **urls;
    size_t n;
    bool is_partial; /* the source names more, which cannot be read */
};

/* Finds the sets of the source at `url`. Prints a line for each document that
 * cannot be read. EXIT_GOOD: found at least one set for the caller to go on
 * with; else has printed why. Give `*sets` to source_sets_fini in any case. */
enum exit_code source_sets_find(struct td_client *client, const char *url,
                                struct source_sets *sets);
void source_sets_fini(struct source_sets *sets);

/* Joins the exit codes of a program that treats one set after the other:
 * returns `before` if it is not good, else `one`. If the source has
 * several sets, a `one` that is not good counts as EXIT_FAILED. */
enum exit_code source_sets_exit(const struct source_sets *sets,
                                enum exit_code before, enum exit_code one);

#endif

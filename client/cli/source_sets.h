/*
 * source_sets.h - the sets that the URL of a command line stands for.
 */
#ifndef CLIENT_CLI_SOURCE_SETS_H
#define CLIENT_CLI_SOURCE_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/cli.h"

struct source_sets {
    char **urls;
    size_t n;
    bool is_partial; /* the source names more, which cannot be read */
};

/* Finds the sets of the source at `url`. Says what cannot be read, a line for
 * each. EXIT_GOOD: at least one set was found, and the caller goes on with it;
 * else why was said. `*sets` is to be given to source_sets_fini in any case. */
enum exit_code source_sets_find(struct td_client *client, const char *url,
                                struct source_sets *sets);
void source_sets_fini(struct source_sets *sets);

/* How the program ends that did this for one set after the other: with what it
 * ended before, if that was not good, else with `one`. Of several sets none
 * decides that all are gone. */
enum exit_code source_sets_exit(const struct source_sets *sets,
                                enum exit_code before, enum exit_code one);

#endif

/*
 * options.h - tables of options: finds rows by name, suggests names, sets
 * defaults, and prints --help and the example of a file.
 *
 * There are two: the broker's (config.c), and that of a bridge
 * (bridging_keys.c).
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/option.h"

/* The most rows of a table. */
#define OPTIONS_MAX 80

struct options {
    const struct option *rows;
    size_t n;
};

/* Returns the index of the row with that name; NULL or n: there is none. */
size_t options_index(const struct options *options, struct slice name);
const struct option *options_find(const struct options *options,
                                  struct slice name);

/* Reports an unknown option. `mark` stands before names: "--" or nothing.
 * `otherwise` completes the message if there is no similar name.
 * STATUS_INVALID. */
MUST_CHECK enum status options_unknown(const struct options *options,
                                       const char *mark, struct slice name,
                                       const char *otherwise,
                                       struct problem *why);

/* As option_read; the problem names the option, with `mark` before it. */
MUST_CHECK enum status options_read(const struct option *option,
                                    const char *mark, const char *text,
                                    void *values, struct problem *why);

/* Sets the default of every row that has one. */
MUST_CHECK enum status options_set_defaults(const struct options *options,
                                            void *values, struct problem *why);

/* Prints the rows for --help. */
void options_help(const struct options *options, FILE *to);

/* Prints each row that may be in a file, as a comment, with its default; if it
 * has none, with its argument's name. */
void options_example(const struct options *options, FILE *to);

#endif

/*
 * options.h - tables of options: rows found by name, what was perhaps meant,
 * defaults, and how --help and the example of a file say them.
 *
 * There are two: the broker's (config.c), and that of a bridge (bridging.c).
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/option.h"

/* Rows of a table at most. */
#define OPTIONS_MAX 80

struct options {
    const struct option *rows;
    size_t n;
};

/* The index of the row of that name; NULL or n: there is none. */
size_t options_index(const struct options *options, struct slice name);
const struct option *options_find(const struct options *options,
                                  struct slice name);

/* There is no option of that name. `mark` stands before names: "--" or nothing;
 * `otherwise` is said where nothing like it is known either. STATUS_INVALID. */
MUST_CHECK enum status options_unknown(const struct options *options,
                                       const char *mark, struct slice name,
                                       const char *otherwise,
                                       struct problem *why);

/* option_read; the problem names the option, `mark` before it. */
MUST_CHECK enum status options_read(const struct option *option,
                                    const char *mark, const char *text,
                                    void *values, struct problem *why);

/* Puts the default of every row that has one into `values`. */
MUST_CHECK enum status options_set_defaults(const struct options *options,
                                            void *values, struct problem *why);

/* What --help prints of each row. */
void options_help(const struct options *options, FILE *to);

/* Each row that may stand in a file, as a comment, with its default; where
 * there is none, with what --help calls its value. */
void options_example(const struct options *options, FILE *to);

#endif

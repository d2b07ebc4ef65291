/*
 * option_file.h - reads a file of options: INI with one NAME = VALUE a line,
 * the names being those of a table of options, without "--".
 *
 * No value has quotes around it. A repeated option is an error, unless its row
 * allows it, and so is an unknown one, for which the message suggests a name. A
 * line has at most 198 bytes (libinih's limit). Lines that begin with # or ;
 * are comments, and so is any text behind a blank and a ;.
 */
#pragma once

#include "base/options.h"

struct option_file {
    /* The table of the present section, and the struct of its values; at the
     * beginning those of the lines before any section. */
    const struct options *options;
    void *values;

    /* Sections, "[TITLE]"; NULL: there are none. `begin` sets `options` and
     * `values`. `end` comes after the last line of a section, and may set
     * `line` to that of the fault. STATUS_INVALID: `why` has the error. */
    enum status (*begin)(struct option_file *file, struct slice title,
                         struct problem *why);
    enum status (*end)(struct option_file *file, unsigned *line,
                       struct problem *why);

    /* Explains why the present section has no such option. NULL:
     * options_unknown does. */
    enum status (*explain)(const struct option_file *file, struct slice name,
                           struct problem *why);
    const char *section_form; /* "a section is [mqtt NAME]" */
    void *user;

    /* The reader's own. */
    unsigned line;                 /* the present one, from 1 */
    unsigned line_of[OPTIONS_MAX]; /* of each option of the section; 0: none */
    bool is_in_section;
    FILE *stream;
    const char *path;
    enum status rc;
    struct problem *why;
};

/* Reads the file at `path`. STATUS_NOT_FOUND: there is none. STATUS_INVALID:
 * `why` names the file and the line. */
MUST_CHECK enum status option_file_read(struct option_file *file,
                                        const char *path, struct problem *why);

/*
 * options.h - tables of options: reads their texts, finds rows by name,
 * suggests names, sets defaults, and prints --help and the example of a file.
 *
 * The broker has one (config.c), a bridge has one (bridge_config.c), and so has
 * each command of the programs (commands.h).
 */
#pragma once

#include "proto/problem.h"

enum option_type {
    OPTION_GIVEN,   /* no conversion: the command reads struct arguments */
    OPTION_LENT,    /* const char *: the argument itself; commands alone */
    OPTION_WISH,    /* --help, --version: config.c handles them */
    OPTION_FILE,    /* --config: config.c handles it */
    OPTION_TEXT,    /* char[max] */
    OPTION_LISTEN,  /* char[max], and unsigned: "127.0.0.1:80", "[::1]:0" */
    OPTION_URL,     /* char[max]: http or https, no slash at the end */
    OPTION_COUNT,   /* uint64_t: "50000" */
    OPTION_BYTES,   /* uint64_t: "65536", "64K", "50M", "1G" */
    OPTION_SECONDS, /* int64_t, in microseconds: "86400", "0.25" */
    OPTION_MILLISECONDS, /* int64_t, in microseconds: "5", "0.5" */
    OPTION_PAUSE,        /* unsigned, in milliseconds: "90", "10m", "1.5h" */
    OPTION_NUMBER,       /* unsigned: "50" */
    OPTION_PERCENT,      /* int: 1 to 100; "none" is -1 */
    OPTION_LIMIT,        /* uint64_t: as OPTION_BYTES, from 1 on; "none" is 0 */
    OPTION_KEEP,         /* uint64_t: "none", "daily", "7": every seventh; with
                            AGE in the argument "all", "7", "30d", "12h" */
    OPTION_FLAG,         /* bool; "yes" or "no" where a text is needed */
    OPTION_SWITCH,       /* int: 1 if it is given */
    OPTION_EITHER,       /* bool: true for the second of the argument's words */
    OPTION_CHOICE,       /* int, unsigned, enum: one of the words; the first is
                            min, the next min + 1 */
    OPTION_OWN           /* has a reader function */
};

/* The values of OPTION_KEEP's words, and what is added to the hours of an age;
 * other numbers are counts. */
#define OPTION_KEEP_NONE  0
#define OPTION_KEEP_AGE   ((uint64_t)1 << 62)
#define OPTION_KEEP_DAILY (UINT64_MAX - 1)
#define OPTION_KEEP_ALL   UINT64_MAX

struct option {
    const char *name;     /* without "--" */
    const char *argument; /* its name in --help: "FILE", or the possible words:
                             "json|xml"; NULL: none */
    enum option_type type;
    size_t offset;     /* of the value in the struct of all values */
    size_t port;       /* OPTION_LISTEN: offset of the port */
    uint64_t min, max; /* in units of the value; texts: max is their room */
    enum status (*read)(const char *text, void *values,
                        struct problem *why); /* OPTION_OWN */
    const char *standard; /* default, as text; NULL: see help */
    const char *help;     /* one sentence without a full stop */
    bool is_live;         /* a reload changes it while the broker runs */
    bool may_repeat;      /* may be given several times */
    bool is_required;     /* the command cannot do without */
    const char *variable; /* of the environment, for who does not give the
                             option; NULL: none */
};

/* Reads `text`, and stores the value at `o->offset` of `values`.
 * STATUS_INVALID: `why` has the error ("0 is not between 1 and 50000"), without
 * the option's name. */
MUST_CHECK enum status option_read(const struct option *o, const char *text,
                                   void *values, struct problem *why);

/* Appends the value at `o->offset` in the form that option_read takes. Nothing
 * for an option without a value there. */
struct buf;
void option_write(const struct option *o, const void *values, struct buf *to);

/* True if the value at `o->offset` is the same in both; also for an option
 * without a value there (OPTION_OWN). */
bool option_is_same(const struct option *o, const void *a, const void *b);

/* Copies the value at `o->offset`. */
void option_copy(const struct option *o, const void *from, void *to);

/* The word of a value of OPTION_CHOICE. */
struct slice option_word(const struct option *o, unsigned value);

/* The text of a value of OPTION_KEEP. */
struct keep_text {
    char text[24];
} option_keep_text(uint64_t value);

/* Copies a non-empty text, if it has room: the reader of OPTION_TEXT. */
MUST_CHECK enum status option_text(const char *text, char *to, size_t room,
                                   struct problem *why);

/* Reads "HOST:PORT", or "[ADDRESS]:PORT" without the brackets: the reader of
 * OPTION_LISTEN. */
MUST_CHECK enum status option_listen(const char *text, char *to, size_t room,
                                     unsigned *port, struct problem *why);

/* Tables */

/* The most rows of a table. */
#define OPTIONS_MAX 128

struct options {
    const struct option *rows;
    size_t n;
    size_t size; /* of the struct that the values go to; 0: none */
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

/* An option as it was given. */
struct given {
    size_t row;
    const char *value; /* "yes" of a flag */
};

/* The arguments of a command line, lent; the arrays are its own. */
struct arguments {
    const char *options[OPTIONS_MAX]; /* the last value of each row, "yes" of a
                                         flag; NULL: not given */
    struct given *given;              /* all, in order */
    size_t n_given;
    char **operands; /* NULL behind the last; room for one more */
    int n_operands;
    const struct option *wish; /* the row of OPTION_WISH; NULL: none */

    /* Of a command (commands.h). */
    const struct program *program;
    const struct command *command;
    void *values; /* of the command's options */
    void *shared; /* of the options that all commands have */
};

/* Assigns the arguments behind argv[0] to rows: "--name value", "--name=value",
 * and operands, if there may be any: "-", what does not begin with "-", and all
 * behind "--". "-h" is --help. Stops at a wish. Converts no value: see
 * options_take. Give `*given` to options_arguments_fini in any case. */
MUST_CHECK enum status options_arguments(const struct options *options,
                                         int argc, char **argv,
                                         bool has_operands,
                                         struct arguments *given,
                                         struct problem *why);
void options_arguments_fini(struct arguments *given);

/* Converts `texts`, one for each row (NULL: none), or, if it is NULL, the
 * default of each row; rows of OPTION_GIVEN and OPTION_FILE are left out. */
MUST_CHECK enum status options_take(const struct options *options,
                                    const char *const *texts, void *values,
                                    struct problem *why);

/* Prints the rows for --help. */
void options_help(const struct options *options, FILE *to);

/* Prints a row of --help: `name` and `argument` (NULL: none), then `help`,
 * broken at column 80. */
void options_help_row(const char *name, const char *argument, const char *help,
                      FILE *to);

/* Describes a row: its purpose, its limits, its default, its variable. */
#define OPTION_DESCRIPTION_SIZE 512

void option_describe(const struct option *o, char *to, size_t size);

/* Writes a paragraph from column `column` on, broken at blanks and newlines;
 * each new line begins with `indent`. A newline before an empty line, before a
 * line that begins with a blank or at the end of the text ends the paragraph;
 * returns what follows it. */
const char *options_wrap(FILE *to, const char *text, size_t column,
                         const char *indent);

/* Prints each row that may be in a file, as a comment, with its default; if it
 * has none, with its argument's name. */
void options_example(const struct options *options, FILE *to);

/*
 * commands.h - a program's table of commands: from its rows come the parser,
 * --help, the manual page and the completion of shells.
 *
 *     const struct command set_create_command = {
 *         .name = "set create",
 *         .operands = "SET-URL",
 *         .help = "Creates a set.",
 *         .more = "A set that exists is refused.",
 *         .examples = "tidings set create http://localhost:8787/sets/news\n",
 *         .options = OPTION_ROWS(rows),
 *         .run = create_set,
 *     };
 */
#pragma once

#include "base/options.h"

/* Exit codes of both programs; --help lists them. */
enum exit_code {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1, /* refused, unreachable */
    EXIT_USAGE = 2,  /* a wrong command line */
    EXIT_GONE = 3,   /* tidings only */
    EXIT_REWOUND = 4 /* tidings only: a history went back, or is another */
};

/* The most operands that a row names. */
#define COMMAND_OPERANDS_MAX 8

/* The address of the `struct options` of an array, without values
 * (option_rows.h: OPTION_ROWS). */
#define OPTIONS(array) (&(const struct options){(array), N_ELEMENTS(array)})

struct command {
    const char *name; /* "sync", or with a second word: "set create" */

    /* "SET-URL [FILE|-]": brackets around an operand that may be missing, "..."
     * behind one that may be repeated. Where an operand is a DIR or a FILE, the
     * shell completes names of files. NULL: none. */
    const char *operands;
    const char *help; /* one sentence */

    /* Paragraphs, with an empty line between them; a line that begins with a
     * blank is printed as it is. NULL: none. */
    const char *more;
    const char *examples; /* lines to type, of at most 78 characters, or NULL */
    const struct options *options; /* NULL: none */
    enum exit_code (*run)(const struct arguments *arguments);

    bool is_plain; /* has no option of program.shared; its examples lack the
                      name of the program */
};

/* An operand and its description. */
struct operand_row {
    const char *name; /* "SET-URL" */
    const char *help;
};

struct program {
    const char *name;     /* "tidings" */
    int section;          /* of its manual page */
    const char *purpose;  /* for the head of that page */
    const char *see_also; /* for its end, as source for scdoc */
    const char *more;     /* paragraphs, or NULL */
    const char *examples; /* as those of a command */
    const char *footer;   /* paragraphs at the end of each help, or NULL */
    const struct command *const *commands; /* NULL behind the last */
    /* Serving, say: the row of the program without a command. Its name is "".
     * commands_run leaves it to the caller. NULL: none. */
    const struct command *start;
    const struct operand_row *operands; /* no name behind the last; or NULL */

    /* Names of commands of former versions, each with the name of the command
     * that takes its place; NULL behind the last. NULL: none. */
    const char *const *former;

    /* Options that all commands have. `prepare` is called before a command, and
     * may change its arguments: another result than EXIT_GOOD is that of the
     * program, and the reason was printed. `release` is called after both.
     * NULL: none. */
    const struct options *shared; /* NULL: none */
    enum exit_code (*prepare)(struct arguments *arguments);
    void (*release)(struct arguments *arguments);
};

/* `help` and `completion`, for the tables of programs. */
extern const struct command help_command, completion_command;

/* Opens the standard streams that are closed, so that no file gets their
 * descriptors and, with them, the output. Writing to them fails as before. Call
 * it first. */
void commands_begin(void);

/* Runs the command that the first arguments name, or prints the help that they
 * ask for. Not for an option as the first argument, if the program has a
 * `start`. The output is on its way when this returns: if standard output
 * cannot be written, EXIT_FAILED, and the reason was printed. */
enum exit_code commands_run(const struct program *program, int argc,
                            char **argv);

/* Prints "PROGRAM COMMAND: PROBLEM" on standard error. Returns EXIT_USAGE for
 * STATUS_INVALID, else EXIT_FAILED. */
enum exit_code command_fail(const struct arguments *arguments, enum status rc,
                            const struct problem *why);

/* Flushes standard output; on a failure prints the reason, unless the reader
 * has closed it. Returns EXIT_GOOD or EXIT_FAILED. */
enum exit_code command_flush(const char *name);

/* The number of the command's own options. Those of all commands follow them in
 * struct arguments. */
size_t command_n_options(const struct command *command);

/* Operands */

/* A word of a command's `operands`. */
struct operand {
    struct slice name; /* without brackets and "...": "FILE|-" */
    bool is_optional, may_repeat;
};

/* Reads the words of a command's operands into `words`, which has room for
 * COMMAND_OPERANDS_MAX. Returns their number. */
size_t operands_read(const struct command *command, struct operand *words);

/* True if NAME is among the words that "|" separates in the operand. */
bool operand_may_be(const struct operand *operand, const char *name);

/* Writes the index of the word of each of `n` operands, which `word_of` has
 * room for; optional words get operands, from the first word on, while there
 * are enough. False: there are too few operands or too many. */
bool operands_assign(const struct operand *words, size_t n_words, size_t n,
                     size_t *word_of);

/*
 * cli.h - what the commands of `tidings` have in common.
 */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "client/tidings.h"
#include "proto/problem.h"

/* Exit codes; --help lists them. */
enum exit_code {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_GONE = 3
};

/* One row per option of a command. */
struct option_row {
    const char *name;     /* without "--" */
    const char *argument; /* name of its value; NULL: it has none */
    const char *help;
};

/* An option as it was given. */
struct given {
    int row;
    const char *value; /* "" where there is none */
};

/* The command line after the command: the last value of each option (NULL: not
 * given; "" without a value), all options in order, and the operands. */
struct arguments {
    const char *const *options;
    const struct given *given;
    size_t n_given;
    int n_operands;
    char *const *operands;
    const char *const *headers; /* of --header, which all commands have */
    size_t n_headers;
    bool allows_private;     /* --allow-private, likewise */
    struct td_limits limits; /* limit_options.h */
};

/* One row per command. */
struct command {
    const char *name;
    const char *operands;
    const char *help; /* a sentence of at most 69 characters */
    const char *more; /* paragraphs after the options; NULL: none */
    const struct option_row *options; /* the last one has no name */
    enum exit_code (*run)(const struct arguments *arguments);
};

extern const struct command publish_command;
extern const struct command follow_command;
extern const struct command set_command;
extern const struct command watch_command;
extern const struct command get_command;
extern const struct command sync_command;
extern const struct command audit_command;
extern const struct command relay_command;
extern const struct command verify_command;

/* "tidings: ..." on standard error, one line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

void vsay(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));

/* The same for a wrong command line; returns EXIT_USAGE. */
enum exit_code bad_usage(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Prints that standard output could not be written, by `error` of errno.h (0:
 * unknown); quietly if the reader closed it. Returns EXIT_FAILED. */
enum exit_code cannot_write(int error);

/* `text` (UTF-8) as a JSON string, quotes included. */
void put_json_string(FILE *to, const char *text);

/* Prints text of others: nothing that controls the terminal or begins a line.
 * NULL is no text. */
void print_plain(const char *text);

/* "first=1 last=3 position=... datetime=..." on standard output, one line. */
void print_receipt(const struct td_receipt *receipt);

/* Reads a pause: a number of seconds, or with a unit "90s", "10m", "1.5h"; from
 * 0.1 s to a day. False: `text` is not one. */
bool read_pause(const char *text, unsigned *ms);

/* Waits `ms` milliseconds, while the handle goes on. False: td_stop was called.
 */
bool rest(struct td_client *client, unsigned ms);

/* Call it after a temporary failure: prints the reason (td_problem), and waits.
 * The pause grows with each call, from 0.2 s (*pause_ms 0) to `most_ms`, and is
 * spread by chance; it lasts as long as the server asked for, up to an hour.
 * False: td_stop was called. */
bool rest_before_retry(struct td_client *client, unsigned *pause_ms,
                       unsigned most_ms);

/* A handle with the limits, for the server at `url`, which gets the --headers.
 * NULL: *code is the exit code, and the reason was printed. */
struct td_client *open_client(const struct arguments *arguments,
                              const char *url, enum exit_code *code);

/* The exit code after a call that returned `rc`; prints the reason if that is
 * not good. */
enum exit_code exit_of(const struct td_client *client, enum td_status rc);

#endif

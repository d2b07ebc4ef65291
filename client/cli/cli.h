/*
 * cli.h - what the commands of `tidings` have in common.
 */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/commands/commands.h"
#include "client/tidings.h"
#include "proto/problem.h"

extern const struct command publish_command;
extern const struct command follow_command;
extern const struct command set_list_command;
extern const struct command set_create_command;
extern const struct command set_change_command;
extern const struct command set_show_command;
extern const struct command set_delete_command;
extern const struct command set_rotate_command;
extern const struct command set_build_command;
extern const struct command subscriptions_list_command;
extern const struct command subscriptions_show_command;
extern const struct command subscriptions_redeliver_command;
extern const struct command subscriptions_end_command;
extern const struct command bridges_command;
extern const struct command relays_command;
extern const struct command tail_command;
extern const struct command watch_command;
extern const struct command get_command;
extern const struct command status_command;
extern const struct command sync_command;
extern const struct command audit_command;
extern const struct command harvest_command;
extern const struct command verify_command;

/* "tidings: ..." on standard error, one line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

void vsay(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));

/* The on_trouble of a call that goes on: prints the reason and the pause. */
void say_trouble(const char *why, unsigned pause_ms, void *user);

/* The same as `say` for a wrong command line; returns EXIT_USAGE. */
enum exit_code bad_usage(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Prints that standard output could not be written, by `error` of errno.h (0:
 * unknown); quietly if the reader closed it. Returns EXIT_FAILED. */
enum exit_code cannot_write(int error);

/* `text` (UTF-8) as a JSON string, quotes included. */
void put_json_string(FILE *to, const char *text);

/* Writes `before` and `"NAME":VALUE`; nothing if `value` is NULL. */
void put_member(FILE *to, const char *before, const char *name,
                const char *value);

/* Prints text of others: nothing that controls the terminal or begins a line.
 * NULL is no text. */
void print_plain(const char *text);

/* "first=1 last=3 position=... datetime=..." on standard output, one line. */
void print_receipt(const struct td_receipt *receipt);

/* Reads a number from 1 to `most`. False: `text` is not one. NULL leaves
 * *number alone. */
bool read_number(const char *text, unsigned most, unsigned *number);

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

/* True if `url` begins with http:// or https://. */
bool is_web_url(const char *url);

/* A token, and where it comes from; all NULL: none. */
struct chosen_token {
    const char *from; /* the option's or variable's name */
    const char *path;
    const char *text;
};

/* Gives the handle the token for the server at `url`. EXIT_GOOD; else has
 * printed why. */
enum exit_code give_token(struct td_client *client, const char *url,
                          const struct chosen_token *token);

/* A handle with the limits, for the server at `url`, which gets the --headers,
 * the token and the certificate (settings.h). NULL: *code is the exit code, and
 * the reason was printed. */
struct td_client *open_client(const struct arguments *arguments,
                              const char *url, enum exit_code *code);

/* The exit code after a call that returned `rc`; prints the reason if that is
 * not good. */
enum exit_code exit_of(const struct td_client *client, enum td_status rc);

/*
 * SIGINT and SIGTERM end a command gracefully.
 *
 * A process has one command, so there is one of it.
 */

/* Has both signals call `stop(user)` from now on: within a signal handler, so
 * it may only call what is safe there (td_stop). */
void signals_begin(void (*stop)(void *user), void *user);

/* The same for a handle: td_stop. */
void signals_stop_client(struct td_client *client);

/* Ignores both signals from now on: `user` may be freed. */
void signals_end(void);

/* True if one of them came. */
bool signals_came(void);

/* A write to a closed pipe fails instead of ending the process. */
void signals_ignore_pipe(void);

/*
 * The options that limit what a source can make a command
 * read and write.
 *
 * A command has them if its table has their rows. settings.h reads them, and
 * open_client sets them.
 */

/* For commands that show how far they are (progress.h). */
#define PROGRESS_ROW                                        \
    {                                                       \
        "no-progress", .help = "no bar, even on a terminal" \
    }

/* For all commands that read sources. */
#define LIMIT_ROWS                                                        \
    {"min-free", "BYTES", .standard = "1G",                               \
     .help = "stop where the disk has less: 500M, 2G or none"},           \
    {                                                                     \
        "max-entries", "N", .standard = "none",                           \
                            .help = "stop where there are more resources" \
    }

#define N_LIMIT_ROWS 2

/* For those that fetch the resources, too. */
#define MIRROR_LIMIT_ROWS                                  \
    {"max-file", "BYTES", .standard = "none",              \
     .help = "give up a resource that is longer"},         \
        {"max-total", "BYTES", .standard = "none",         \
         .help = "stop where the mirror would be larger"}, \
        LIMIT_ROWS

#define N_MIRROR_LIMIT_ROWS (2 + N_LIMIT_ROWS)

/* Finds the sets behind the URL of a command line */

struct found_sets {
    char **urls;
    size_t n;
    bool is_partial; /* the source names more, which cannot be read */
};

/* Finds the sets of the source at `url`. Prints a line for each document that
 * cannot be read. EXIT_GOOD: found at least one set for the caller to go on
 * with; else has printed why. Give `*sets` to found_sets_fini in any case. */
enum exit_code find_sets(struct td_client *client, const char *url,
                         struct found_sets *sets);
void found_sets_fini(struct found_sets *sets);

/* Joins the exit codes of a program that treats one set after the other:
 * returns `before` if it is not good, else `one`. If the source has
 * several sets, a `one` that is not good counts as EXIT_FAILED. */
enum exit_code found_sets_exit(const struct found_sets *sets,
                               enum exit_code before, enum exit_code one);

#endif

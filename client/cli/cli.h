/*
 * cli.h - what the commands of `tidings` have in common.
 */
#pragma once

#include <signal.h>

#include "base/commands/commands.h"
#include "client/cli/output.h"
#include "client/tidings.h"

extern const struct command publish_command, follow_command, set_list_command,
    set_create_command, set_change_command, set_show_command,
    set_delete_command, set_rotate_command, set_build_command,
    subscriptions_list_command, subscriptions_show_command,
    subscriptions_add_command, subscriptions_attempts_command,
    subscriptions_test_command, subscriptions_redeliver_command,
    subscriptions_end_command, bridges_command, relays_command, tail_command,
    watch_command, get_command, healthy_command, mcp_command, status_command,
    sync_command, audit_command, diff_command, doctor_command, harvest_command,
    verify_command, prove_command, witness_command;

/* "tidings: ..." on standard error, one line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, as a callback for a line of text. */
void say_text(const char *text, void *user);

/* The on_trouble of a call that goes on: prints the reason and the pause. */
void say_trouble(const char *why, unsigned pause_ms, void *user);

/* The same, as the value of an exit code: for a wrong command line, and for a
 * failure. */
#define bad_usage(...) (say(__VA_ARGS__), EXIT_USAGE)
#define failed(...)    (say(__VA_ARGS__), EXIT_FAILED)

/* Prints what a reading of lists mended and left out, a line each. */
void say_report(const struct td_report *report);

/* Says that rows left out are the reason of exit status 1. */
enum exit_code left_out_code(void);

/* Prints that deletions are held back, or no longer. */
void say_held(uint64_t n, uint64_t n_of);

/* Ends a line or a part of standard output. If it cannot be written, sets
 * *error, unless that is set, to errno, and stops the handle. */
void end_output(int *error, struct td_client *client);

/* Prints that standard output could not be written, by `error` of errno.h (0:
 * unknown); quietly if the reader closed it. Returns EXIT_FAILED. */
enum exit_code cannot_write(int error);

/* True if this argument is of the command's own option `name`. */
bool is_given(const struct arguments *arguments, const struct given *given,
              const char *name);

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

/* Gives the handle each --accept-history. EXIT_GOOD; else has printed why. */
enum exit_code accept_histories(struct td_client *client,
                                const struct arguments *arguments);

struct trust_files;

/* A handle for the server at `url`, which gets the --headers, the token, the
 * certificate (client_settings.h), each --accept-history, and the keys of
 * `trust`; NULL: none. NULL: *code is the exit code, and the reason was
 * printed. */
struct td_client *open_client(const struct arguments *arguments,
                              const char *url, const struct trust_files *trust,
                              enum exit_code *code);

/* The exit code for `rc`. */
enum exit_code exit_code_of(enum td_status rc);

/* The same; prints "WHAT: WHY", or `why` if `what` is "", if that
 * is not good. */
enum exit_code exit_for(enum td_status rc, const char *what, const char *why);

/* The same after a call of the handle: prints its problem. */
enum exit_code exit_of(const struct td_client *client, enum td_status rc);

/*
 * Asks the user before something is lost.
 */

/* EXIT_GOOD if there is a terminal to ask on; else prints "WHAT: give --yes, or
 * let it ask on a terminal" and returns EXIT_USAGE. */
enum exit_code confirm_can_ask(const char *what);

/* Asks the question, "Delete it", on standard error. EXIT_GOOD: the user types
 * yes; else prints "nothing was " and `done`, and returns EXIT_FAILED. */
enum exit_code confirm(const char *done, const char *question, ...)
    __attribute__((format(printf, 2, 3)));

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

/*
 * Rows that several commands have (base/option_rows.h).
 */

/* For commands that show how far they are (progress.h). */
#define PROGRESS_ROW(member)                                                  \
    {                                                                         \
        "no-progress", NULL, FLAG(member), NULL, "no bar, even on a terminal" \
    }

/* The files with the keys for checkpoints. */
struct trust_files {
    const char *keys, *witnesses; /* NULL: not given */
    uint64_t required;            /* 0: all witnesses */
};

#define TRUST_ROWS(trust)                                                     \
    {"key", "FILE", LENT(trust.keys), NULL,                                   \
     "verifier keys of the set, a line each (tidingsd key show)"},            \
        {"witness", "FILE", LENT(trust.witnesses), NULL,                      \
         "verifier keys of witnesses, likewise; they have to have cosigned"}, \
    {                                                                         \
        "require-witnesses", "N", COUNT(trust.required, 1, 16), NULL,         \
            "so many of these are enough"                                     \
    }

#define COSIGN_ROW(member)                                         \
    {                                                              \
        "cosign", "HOST:PORT", LENT(member), NULL,                 \
            "be a witness of the source: listen there, and cosign" \
            " its checkpoints"                                     \
    }

/* Gives a handle with followers the keys of the files; it keeps checkpoints
 * beside `path` (td_keep_checkpoints). EXIT_GOOD; else has printed why. */
enum exit_code trust_files_follow(const struct trust_files *files,
                                  struct td_client *client, const char *path);

/*
 * A witness (witness.h) within a command that goes on for other reasons. It
 * listens in the loop of that command's handle, and reads sets by one of its
 * own.
 */
struct cosigner;

#define COSIGN_NEEDS_KEY "--cosign needs the --key of the source"

/* Opens a witness of the first `n` operands with its state in `dir`; prints its
 * address and key. The caller closes it, also after a failure, which was
 * printed. */
enum exit_code cosigner_open(struct cosigner **cosigner, const char *listen,
                             const char *dir, struct td_client *client,
                             const struct trust_files *trust,
                             const struct arguments *arguments, size_t n);
void cosigner_close(struct cosigner *cosigner);

/* For those that wish some changes alone. */
#define FILTER_ROWS                                                       \
    {"change", "created|updated|deleted", .help = "only these",           \
     .may_repeat = true},                                                 \
        {"prefix", "URL", .help = "only of resources that begin so",      \
         .may_repeat = true},                                             \
        {"type", "TYPE", .help = "only of this media type, or of TYPE/*", \
         .may_repeat = true},                                             \
    {                                                                     \
        "tag", "TAG", .help = "only with this tag", .may_repeat = true    \
    }

/* For all commands that read sources: a struct td_limits, for td_limit. */
#define LIMIT_ROWS(limits)                                       \
    {"min-free", "BYTES", LIMIT(limits.min_free_bytes), "1G",    \
     "stop where the disk has less: 500M, 2G or none"},          \
    {                                                            \
        "max-entries", "N", LIMIT(limits.max_resources), "none", \
            "stop where there are more resources"                \
    }

/* For those that fetch the resources, too. */
#define MIRROR_LIMIT_ROWS(limits)                                     \
    {"max-file", "BYTES", LIMIT(limits.max_file_bytes), "none",       \
     "give up a resource that is longer"},                            \
        {"max-total", "BYTES", LIMIT(limits.max_total_bytes), "none", \
         "stop where the mirror would be larger"},                    \
        LIMIT_ROWS(limits)

#define MAX_DELETE_ROW(member)                           \
    {                                                    \
        "max-delete", "PERCENT", PERCENT(member), "20",  \
            "hold back more deletions; none is no limit" \
    }

/* A consent to at most so many. */
#define ACCEPT_DELETIONS_ROW(member)                                        \
    {                                                                       \
        "accept-deletions", "N", COUNT(member, 1, (uint64_t)1 << 40), NULL, \
            "delete up to N that are held back"                             \
    }

/* For open_client. */
#define ACCEPT_HISTORY_ROW                                              \
    {                                                                   \
        "accept-history", "MARK",                                       \
            .help = "take a new baseline where the history went back, " \
                    "as the message named it",                          \
            .may_repeat = true                                          \
    }

#define SKIP_BAD_ROW(member)                          \
    {                                                 \
        "skip-bad", NULL, FLAG(member), NULL,         \
            "rows that cannot be used are no failure" \
    }

/* Calls `one` for each of the `n_sets` sets of the source at `url`, one after
 * the other, until a signal comes. Prints a line for each document that cannot
 * be read. Returns the first exit code that is not good; if the source has
 * several sets, it is EXIT_FAILED then. */
enum exit_code for_each_set(struct td_client *client, const char *url,
                            enum exit_code (*one)(const char *set_url,
                                                  size_t n_sets, void *user),
                            void *user);

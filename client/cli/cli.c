/*
 * cli.c - messages, waits and handles of all commands.
 */
#include "client/cli/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "client/cli/client_settings.h"
#include "client/cli/progress.h"
#include "proto/resourcesync/json.h"
#include "proto/shown_address.h"

/* Of a file of keys. */
#define KEYS_SIZE 16384

/* A signal handler has no argument for them. Set before the handler is. */
static void (*stop_command)(void *user);
static void *stopped;
static volatile sig_atomic_t has_come;

static void
on_signal(int number)
{
    (void)number;
    has_come = 1;
    stop_command(stopped);
}

static void
handle_signals(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void
signals_begin(void (*stop)(void *user), void *user)
{
    stop_command = stop;
    stopped = user;
    handle_signals(on_signal);
}

static void
stop_client(void *user)
{
    td_stop(user);
}

void
signals_stop_client(struct td_client *client)
{
    signals_begin(stop_client, client);
}

void
signals_end(void)
{
    handle_signals(SIG_IGN);
}

bool
signals_came(void)
{
    return has_come;
}

void
say(const char *format, ...)
{
    va_list args;
    char *text = NULL;

    progress_clear();
    fflush(stdout); /* results come before the message about them */
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    fprintf(stderr, "tidings: %s\n", text ? shown_address(text) : NO_MEMORY);
    free(text);
}

void
say_text(const char *text, void *user)
{
    (void)user;
    say("%s", text);
}

void
say_trouble(const char *why, unsigned pause_ms, void *user)
{
    (void)user;
    if (pause_ms)
        say("%s; again in %.1f s", why, pause_ms / 1000.0);
    else
        say("%s", why);
}

void
say_report(const struct td_report *report)
{
    if (report->n_left_out)
        say("left out: %" PRIu64 " row%s: %s", report->n_left_out,
            report->n_left_out == 1 ? "" : "s", report->left_out);
    if (report->n_mended)
        say("mended: %s", report->mended);
}

enum exit_code
left_out_code(void)
{
    return failed("rows of the list were left out; --skip-bad takes that");
}

void
say_held(uint64_t n, uint64_t n_of)
{
    if (n)
        say("held back: %" PRIu64 " of %" PRIu64 " resources would be deleted; "
            "--accept-deletions %" PRIu64 " deletes them",
            n, n_of, n);
    else
        say("held back: no deletions any more");
}

void
end_output(int *error, struct td_client *client)
{
    if (fflush(stdout) && !*error) {
        *error = errno;
        td_stop(client);
    }
}

enum exit_code
cannot_write(int error)
{
    return error == EPIPE
               ? EXIT_FAILED
               : failed("cannot write to standard output%s%s",
                        error ? ": " : "", error ? strerror(error) : "");
}

enum exit_code
exit_code_of(enum td_status rc)
{
    return rc == TD_OK || rc == TD_STOPPED ? EXIT_GOOD
           : rc == TD_GONE                 ? EXIT_GONE
           : rc == TD_REWOUND              ? EXIT_REWOUND
           : rc == TD_INVALID              ? EXIT_USAGE
                                           : EXIT_FAILED;
}

enum exit_code
exit_for(enum td_status rc, const char *what, const char *why)
{
    enum exit_code code = exit_code_of(rc);

    if (code)
        say("%s%s%s", what, what[0] ? ": " : "", why);
    return code;
}

enum exit_code
exit_of(const struct td_client *client, enum td_status rc)
{
    return exit_for(rc, "", td_problem(client));
}

/* The sets of a source. */
struct found_sets {
    struct buf urls; /* each with its NUL */
    size_t n;
    bool is_partial; /* the source names more, which cannot be read */
};

static void
on_set(const char *url, const char *why, void *user)
{
    struct found_sets *sets = user;

    if (why) {
        say("%s", why);
        sets->is_partial = true;
        return;
    }
    buf_add(&sets->urls, url, strlen(url) + 1);
    sets->n++;
}

enum exit_code
for_each_set(struct td_client *client, const char *url,
             enum exit_code (*one)(const char *set_url, size_t n_sets,
                                   void *user),
             void *user)
{
    struct found_sets sets = {.urls.max = SIZE_MAX / 2};
    enum td_status rc = td_sets(client, url, on_set, &sets);
    enum exit_code code, result;
    const char *set;

    if (sets.urls.failed)
        code = failed(NO_MEMORY);
    else if (rc == TD_STOPPED)
        code = failed("stopped before all sets of %s were found", url);
    else
        code = exit_of(client, rc);
    if (sets.is_partial && sets.n > 0 && !sets.urls.failed && rc != TD_STOPPED)
        code = EXIT_GOOD; /* on_set printed what is missing */
    result = code || !sets.is_partial ? code : EXIT_FAILED;
    set = sets.urls.data;
    for (size_t i = 0; !code && i < sets.n; i++, set += strlen(set) + 1) {
        enum exit_code its;

        if (signals_came()) {
            result = failed("stopped before %s", set);
            break;
        }
        its = one(set, sets.n, user);
        if (result == EXIT_GOOD)
            result = its && sets.n > 1 ? EXIT_FAILED : its;
    }
    buf_fini(&sets.urls);
    return result;
}

bool
is_given(const struct arguments *arguments, const struct given *given,
         const char *name)
{
    const struct options *own = arguments->command->options;

    return given->row < own->n && !strcmp(own->rows[given->row].name, name);
}

enum exit_code
give_token(struct td_client *client, const char *url,
           const struct chosen_token *token)
{
    enum td_status rc = TD_OK;

    if (token->path)
        rc = td_client_set_token_file(client, url, token->path);
    else if (token->text)
        rc = td_client_set_token(client, url, token->text);
    return exit_for(rc, token->from, td_problem(client));
}

enum exit_code
accept_histories(struct td_client *client, const struct arguments *arguments)
{
    enum td_status rc = TD_OK;

    for (size_t i = 0; !rc && i < arguments->n_given; i++)
        if (is_given(arguments, &arguments->given[i], "accept-history"))
            rc = td_accept_history(client, arguments->given[i].value);
    return exit_of(client, rc);
}

/* Trust */

/* Reads a file of keys into `text`, terminated; none if `path` is NULL. */
static enum exit_code
read_keys(const char *path, char text[KEYS_SIZE])
{
    ssize_t n = path ? file_read(AT_FDCWD, path, text, KEYS_SIZE) : 0;

    if (n == KEYS_SIZE)
        errno = EFBIG;
    if (n < 0 || n == KEYS_SIZE)
        return bad_usage("cannot read the keys of %s: %s", path,
                         strerror(errno));
    text[n] = '\0';
    return EXIT_GOOD;
}

/* Gives the handle the keys of the files. EXIT_GOOD; else has printed why. The
 * first call is for the name in a message: the keys alone. */
static enum exit_code
use_trust_files(const struct trust_files *files, struct td_client *client)
{
    char keys[KEYS_SIZE], witnesses[KEYS_SIZE];
    const char *log = files->keys ? keys : NULL;
    enum exit_code code = read_keys(files->keys, keys);

    if (!code && log)
        code = exit_for(td_trust(client, log, NULL, 0), files->keys,
                        td_problem(client));
    if (!code)
        code = read_keys(files->witnesses, witnesses);
    if (code || (!files->witnesses && !files->required))
        return code;
    return exit_for(td_trust(client, log, files->witnesses ? witnesses : NULL,
                             (unsigned)files->required),
                    files->witnesses ? files->witnesses : "--require-witnesses",
                    td_problem(client));
}

struct td_client *
open_client(const struct arguments *arguments, const char *url,
            const struct trust_files *trust, enum exit_code *code)
{
    const struct settings *settings = arguments->shared;
    struct server_access access = {.cert = NULL};
    struct td_client *client = td_open();
    enum td_status rc = TD_OK;

    if (!client) {
        *code = failed("no memory or descriptors left");
        return NULL;
    }
    if (settings->line.allows_private || settings->file.allows_private)
        td_allow_private(client);
    for (size_t i = 0; !rc && i < settings->n_headers; i++)
        rc = td_header(client, url, settings->headers[i]);
    *code = exit_of(client, rc);
    if (!rc)
        *code = accept_histories(client, arguments);
    if (url)
        access = settings_access(arguments, url);
    if (!*code && uri_is_web(url)) /* a directory has no server */
        *code = give_token(client, url, &access.token);
    if (!*code && access.cert && !strncasecmp(url, "https:", 6)) {
        rc = td_client_set_certificate(client, url, access.cert, access.key);
        *code = exit_for(rc, "--cert", td_problem(client));
    }
    if (!*code && trust)
        *code = use_trust_files(trust, client);
    if (*code) {
        td_close(client);
        return NULL;
    }
    return client;
}

enum exit_code
trust_files_follow(const struct trust_files *files, struct td_client *client,
                   const char *path)
{
    enum exit_code code = use_trust_files(files, client);

    return code || (!files->keys && !files->witnesses)
               ? code
               : exit_of(client, td_keep_checkpoints(client, path));
}

/* Asking */

enum exit_code
confirm_can_ask(const char *what)
{
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        return EXIT_GOOD;
    return bad_usage("%s: give --yes, or let it ask on a terminal", what);
}

enum exit_code
confirm(const char *done, const char *question, ...)
{
    char answer[16] = "";
    va_list rest;

    va_start(rest, question);
    vfprintf(stderr, question, rest);
    va_end(rest);
    fputs("? Type yes: ", stderr);
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) && !strcmp(answer, "yes\n"))
        return EXIT_GOOD;
    return failed("nothing was %s", done);
}

/*
 * cli.c - messages, waits and handles of all commands.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cli/progress.h"
#include "client/cli/settings.h"
#include "client/lib/pause.h"

struct finding {
    struct found_sets *sets;
    bool failed; /* no memory */
};

static void
on_set(const char *url, const char *why, void *user)
{
    struct finding *finding = user;
    struct found_sets *sets = finding->sets;
    char **urls;

    if (why) {
        say("%s", why);
        sets->is_partial = true;
        return;
    }
    urls = realloc(sets->urls, (sets->n + 1) * sizeof(*urls));
    if (urls)
        sets->urls = urls;
    if (!urls || !(urls[sets->n] = strdup(url)))
        finding->failed = true;
    else
        sets->n++;
}

enum exit_code
find_sets(struct td_client *client, const char *url, struct found_sets *sets)
{
    struct finding finding = {.sets = sets};
    enum td_status rc;

    *sets = (struct found_sets){.n = 0};
    rc = td_sets(client, url, on_set, &finding);
    if (finding.failed) {
        say(NO_MEMORY);
        return EXIT_FAILED;
    }
    if (rc == TD_STOPPED) {
        say("stopped before all sets of %s were found", url);
        return EXIT_FAILED;
    }
    if (rc && sets->is_partial && sets->n > 0) {
        say("%s", td_problem(client));
        return EXIT_GOOD;
    }
    return exit_of(client, rc);
}

void
found_sets_fini(struct found_sets *sets)
{
    for (size_t i = 0; i < sets->n; i++)
        free(sets->urls[i]);
    free(sets->urls);
    *sets = (struct found_sets){.n = 0};
}

enum exit_code
found_sets_exit(const struct found_sets *sets, enum exit_code before,
                enum exit_code one)
{
    if (one != EXIT_GOOD && (sets->n > 1 || sets->is_partial))
        one = EXIT_FAILED;
    return before == EXIT_GOOD ? one : before;
}

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
signals_ignore_pipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &ignore, NULL);
}

/* Of read_pause. */
#define PAUSE_LEAST_MS 100
#define PAUSE_MOST_S   86400

void
vsay(const char *format, va_list args)
{
    progress_clear();
    fflush(stdout); /* results come before the message about them */
    fputs("tidings: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void
say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsay(format, args);
    va_end(args);
}

void
say_trouble(const char *why, unsigned pause_ms, void *user)
{
    (void)user;
    say("%s; again in %.1f s", why, pause_ms / 1000.0);
}

enum exit_code
bad_usage(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsay(format, args);
    va_end(args);
    return EXIT_USAGE;
}

enum exit_code
cannot_write(int error)
{
    if (error != EPIPE)
        say("cannot write to standard output%s%s", error ? ": " : "",
            error ? strerror(error) : "");
    return EXIT_FAILED;
}

void
put_json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", *text);
        else
            fputc(*text, to);
    fputc('"', to);
}

void
put_member(FILE *to, const char *before, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(to, "%s\"%s\":", before, name);
    put_json_string(to, value);
}

void
print_plain(const char *text)
{
    for (; text && *text; text++)
        if (*text == '\xc2' && (unsigned char)text[1] >= 0x80 &&
            (unsigned char)text[1] < 0xa0) { /* U+0080 to U+009F */
            putchar('?');
            text++;
        } else {
            putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
        }
}

void
print_receipt(const struct td_receipt *receipt)
{
    printf("first=%llu last=%llu position=%s datetime=%s\n",
           (unsigned long long)receipt->first,
           (unsigned long long)receipt->last, receipt->position,
           receipt->datetime);
}

enum exit_code
exit_of(const struct td_client *client, enum td_status rc)
{
    if (rc == TD_OK || rc == TD_STOPPED)
        return EXIT_GOOD;
    say("%s", td_problem(client));
    if (rc == TD_GONE)
        return EXIT_GONE;
    return rc == TD_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

bool
read_number(const char *text, unsigned most, unsigned *number)
{
    unsigned long value;

    if (!text)
        return true;
    value = strlen(text) < 10 && text[0] &&
                    strspn(text, "0123456789") == strlen(text)
                ? strtoul(text, NULL, 10)
                : 0;
    if (value < 1 || value > most)
        return false;
    *number = (unsigned)value;
    return true;
}

bool
read_pause(const char *text, unsigned *ms)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};

    size_t size = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);

    if (size == 0 || end != text + size) /* no sign, exponent or space */
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (!strcmp(end, units[i].name)) {
            double seconds = number * units[i].seconds;

            *ms =
                seconds <= PAUSE_MOST_S ? (unsigned)(seconds * 1000 + 0.5) : 0;
            return *ms >= PAUSE_LEAST_MS;
        }
    return false;
}

bool
rest(struct td_client *client, unsigned ms)
{
    struct pollfd ready = {.fd = td_fd(client), .events = POLLIN};
    int64_t end_ms = clock_steady_ms() + ms;
    int64_t left_ms = ms;

    do {
        int due_ms = td_timeout_ms(client);

        poll(&ready, 1, due_ms < 0 || due_ms > left_ms ? (int)left_ms : due_ms);
        if (td_service(client) == TD_STOPPED)
            return false;
        left_ms = end_ms - clock_steady_ms();
    } while (left_ms > 0);
    return true;
}

bool
rest_before_retry(struct td_client *client, unsigned *pause_ms,
                  unsigned most_ms)
{
    unsigned asked_s, ms;

    td_answered(client, &asked_s);
    if (!*pause_ms)
        *pause_ms = PAUSE_FIRST;
    ms = pause_asked(pause_ms, most_ms, asked_s);
    say("%s; again in %.1f s", td_problem(client), ms / 1000.0);
    return rest(client, ms);
}

bool
is_web_url(const char *url)
{
    return url && (!strncasecmp(url, "http://", 7) ||
                   !strncasecmp(url, "https://", 8));
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
    if (!rc)
        return EXIT_GOOD;
    say("%s: %s", token->from, td_problem(client));
    return rc == TD_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

struct td_client *
open_client(const struct arguments *arguments, const char *url,
            enum exit_code *code)
{
    const struct settings *settings = settings_of(arguments);
    struct server_access access = {.cert = NULL};
    struct td_client *client = td_open();
    enum td_status rc = TD_OK;

    if (!client) {
        say("no memory or descriptors left");
        *code = EXIT_FAILED;
        return NULL;
    }
    if (settings->allows_private)
        td_allow_private(client);
    td_limit(client, &settings->limits);
    for (size_t i = 0; !rc && i < settings->n_headers; i++)
        rc = td_header(client, url, settings->headers[i]);
    *code = exit_of(client, rc);
    if (url)
        access = settings_access(arguments, url);
    if (!rc && is_web_url(url)) /* a directory has no server */
        *code = give_token(client, url, &access.token);
    if (!*code && access.cert && !strncasecmp(url, "https:", 6)) {
        rc = td_client_set_certificate(client, url, access.cert, access.key);
        if (rc)
            say("--cert: %s", td_problem(client));
        *code = rc == TD_INVALID ? EXIT_USAGE : rc ? EXIT_FAILED : EXIT_GOOD;
    }
    if (*code) {
        td_close(client);
        return NULL;
    }
    return client;
}

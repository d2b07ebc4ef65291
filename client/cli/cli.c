/*
 * cli.c - messages, waits and handles of all commands.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* Of rest_before_retry. */
#define RETRY_FIRST_MS     200
#define RETRY_ASKED_MOST_S 3600

/* Of read_pause. */
#define PAUSE_LEAST_MS 100
#define PAUSE_MOST_S   86400

void
vsay(const char *format, va_list args)
{
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

/* A random number from 0 to `below` - 1. */
static unsigned
random_below(unsigned below)
{
    unsigned n;

    return getentropy(&n, sizeof(n)) ? 0 : n % below;
}

bool
rest_before_retry(struct td_client *client, unsigned *pause_ms,
                  unsigned most_ms)
{
    unsigned before_ms = *pause_ms ? *pause_ms : RETRY_FIRST_MS;
    unsigned ms = before_ms / 2 + random_below(before_ms / 2);
    unsigned asked_s;

    td_answered(client, &asked_s);
    if (asked_s > RETRY_ASKED_MOST_S)
        asked_s = RETRY_ASKED_MOST_S;
    if (asked_s * 1000 > ms)
        ms = asked_s * 1000;
    say("%s; again in %.1f s", td_problem(client), ms / 1000.0);
    *pause_ms = before_ms < most_ms / 2 ? before_ms * 2 : most_ms;
    return rest(client, ms);
}

struct td_client *
open_client(const struct arguments *arguments, const char *url,
            enum exit_code *code)
{
    struct td_client *client = td_open();
    enum td_status rc = TD_OK;

    if (!client) {
        say("no memory or descriptors left");
        *code = EXIT_FAILED;
        return NULL;
    }
    if (arguments->allows_private)
        td_allow_private(client);
    td_limit(client, &arguments->limits);
    for (size_t i = 0; !rc && i < arguments->n_headers; i++)
        rc = td_header(client, url, arguments->headers[i]);
    *code = exit_of(client, rc);
    if (rc) {
        td_close(client);
        return NULL;
    }
    return client;
}

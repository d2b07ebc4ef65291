/*
 * mirror_output.c - what `tidings sync` and `tidings audit` share.
 */
#include "client/cli/mirror_output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cli/cli.h"
#include "client/cli/settings.h"
#include "client/tidings.h"

/* Progress */

#define BAR       20
#define DRAW_MS   200
#define MEASURE_S 1.0 /* shortest time for a rate */
#define KEEP      0.7 /* weight of the old rate */
#define COLUMNS   80  /* if the terminal does not say */
#define LINE_MAX_ 200

static void
measure_rate(struct progress *p, const struct td_sync_event *e, int64_t now_ms)
{
    double seconds = (double)(now_ms - p->measured_ms) / 1000;
    double files = (double)(e->n_done - p->n_done);
    double bytes = (double)(e->bytes_done - p->bytes_done);
    bool is_first = p->measured_ms == 0;

    if (!is_first && seconds < MEASURE_S)
        return;
    if (!is_first) {
        double keep = p->has_rates ? KEEP : 0;

        p->files_per_s = keep * p->files_per_s + (1 - keep) * files / seconds;
        p->bytes_per_s = keep * p->bytes_per_s + (1 - keep) * bytes / seconds;
        p->has_rates = true;
    }
    p->measured_ms = now_ms ? now_ms : 1;
    p->n_done = e->n_done;
    p->bytes_done = e->bytes_done;
}

/* "999 B", "38.2 MB" */
static void
write_bytes(char *to, size_t size, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(to, size, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes,
             units[unit]);
}

/* The longer of the times for the files and for the bytes: either may be the
 * bottleneck, and some lengths are unknown. Negative: unknown. */
static double
seconds_left(const struct progress *p, const struct td_sync_event *e)
{
    double files =
        p->files_per_s > 0 ? (double)e->n_wanted / p->files_per_s : -1;
    double bytes = p->bytes_per_s > 0 && e->bytes_wanted
                       ? (double)e->bytes_wanted / p->bytes_per_s
                       : -1;

    return files > bytes ? files : bytes;
}

static void
write_left(char *to, size_t size, double seconds)
{
    unsigned long s = (unsigned long)(seconds + 0.5);

    to[0] = '\0';
    if (seconds < 0 || seconds > 99.0 * 3600)
        return;
    if (s >= 3600)
        snprintf(to, size, "  %lu:%02lu:%02lu left", s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(to, size, "  %lu:%02lu left", s / 60, s % 60);
}

/* The line for `event` at `now_ms` of any steady clock, no longer than
 * `columns`. Takes the rates. */
static void
progress_line(struct progress *p, const struct td_sync_event *e, int64_t now_ms,
              char *to, size_t columns)
{
    uint64_t n_all = e->n_done + e->n_wanted;
    unsigned full = n_all ? (unsigned)(e->n_done * BAR / n_all) : BAR;
    char line[LINE_MAX_];
    char bytes[24];
    char rate[24];
    char speed[40] = "";
    char left[40];
    char failed[40] = "";

    if (e->n_listed) {
        snprintf(to, columns + 1, "reading the list: %llu resources",
                 (unsigned long long)e->n_listed);
        return;
    }
    measure_rate(p, e, now_ms);
    write_bytes(bytes, sizeof(bytes), (double)e->bytes_done);
    write_bytes(rate, sizeof(rate), p->bytes_per_s);
    if (p->has_rates)
        snprintf(speed, sizeof(speed), "  %s/s", rate);
    write_left(left, sizeof(left), e->n_wanted ? seconds_left(p, e) : -1);
    if (e->n_failed)
        snprintf(failed, sizeof(failed), "  %llu failed",
                 (unsigned long long)e->n_failed);
    snprintf(line, sizeof(line), "[%.*s%.*s]  %llu of %llu files%s  %s%s%s",
             (int)full, "####################", (int)(BAR - full),
             "....................", (unsigned long long)e->n_done,
             (unsigned long long)n_all, failed, bytes, speed, left);
    snprintf(to, columns + 1, "%s", line);
}

static size_t
terminal_columns(void)
{
    struct winsize size = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 2)
        return COLUMNS - 1;
    return size.ws_col < LINE_MAX_ ? size.ws_col - 1u : LINE_MAX_ - 1;
}

/* Draws the line, a few times a second at most. */
static void
progress_show(struct progress *p, const struct td_sync_event *event)
{
    char line[LINE_MAX_];
    int64_t now = clock_steady_ms();

    if (!p->is_on || (p->is_drawn && now - p->drawn_ms < DRAW_MS))
        return;
    progress_line(p, event, now, line, terminal_columns());
    fprintf(stderr, "\r%s\033[K", line);
    p->is_drawn = true;
    p->drawn_ms = now;
}

void
progress_clear(struct progress *p)
{
    if (p->is_drawn)
        fputs("\r\033[K", stderr);
    p->is_drawn = false;
}

enum exit_code
mirror_output_open(struct mirror_output *m, const struct arguments *arguments,
                   const char *url)
{
    enum exit_code code;

    if (!url && settings_of(arguments)->n_headers)
        return bad_usage("--header needs the URL of the source, too: it goes "
                         "to no other server");
    if (!url && settings_of(arguments)->line.token_file[0])
        return bad_usage("--token-file needs the URL of the source, too: the "
                         "token goes to no other server");
    m->progress.is_on = isatty(STDERR_FILENO) == 1 && !m->is_json;
    m->client = open_client(arguments, url, &code);
    if (!m->client)
        return code;
    signals_stop_client(m->client);
    signals_ignore_pipe();
    return EXIT_GOOD;
}

bool
mirror_output_number(const char *option, const char *text, unsigned most,
                     unsigned *number)
{
    if (read_number(text, most, number))
        return true;
    say("--%s is a number from 1 to %u", option, most);
    return false;
}

bool
mirror_output_max_delete(const char *text, int *percent)
{
    unsigned number = 0;

    if (text && !strcmp(text, "none")) {
        *percent = -1;
        return true;
    }
    if (!read_number(text, 100, &number)) {
        say("--max-delete is a number from 1 to 100, or none");
        return false;
    }
    *percent = (int)number;
    return true;
}

/* JSON lines:
 *
 *   {"event":"written","loc":"http://...","path":"...","bytes":12,
 *    "wanted":3,"done":9,"failed":0,"bytesDone":123,"bytesWanted":45}
 */

static const char *const names[] = {
    [TD_SYNC_BASELINE] = "baseline",   [TD_SYNC_BASELINED] = "baselined",
    [TD_SYNC_WRITTEN] = "written",     [TD_SYNC_DELETED] = "deleted",
    [TD_SYNC_FAILED] = "failed",       [TD_SYNC_LEFT] = "left",
    [TD_SYNC_TROUBLE] = "trouble",     [TD_SYNC_PROGRESS] = "progress",
    [TD_SYNC_CAUGHT_UP] = "caught-up",
};

static void
put_number(const char *name, uint64_t value)
{
    printf(",\"%s\":%llu", name, (unsigned long long)value);
}

void
mirror_output_end_line(struct mirror_output *m)
{
    puts("}");
    if (fflush(stdout) && !m->is_deaf) {
        m->is_deaf = true;
        m->error = errno;
        td_stop(m->client);
    }
}

static void
put_event(struct mirror_output *m, const struct td_sync_event *e)
{
    put_member(stdout, "{", "event", names[e->what]);
    put_member(stdout, ",", "set", e->set);
    put_member(stdout, ",", "loc", e->loc);
    put_member(stdout, ",", "path", e->path);
    put_member(stdout, ",", "why", e->why);
    put_member(stdout, ",", "position", e->position);
    if (e->what == TD_SYNC_WRITTEN)
        put_number("bytes", e->bytes);
    if (e->n_listed)
        put_number("listed", e->n_listed);
    put_number("wanted", e->n_wanted);
    put_number("done", e->n_done);
    put_number("failed", e->n_failed);
    put_number("bytesDone", e->bytes_done);
    put_number("bytesWanted", e->bytes_wanted);
    mirror_output_end_line(m);
}

/* Lines for people, in place of the bar */

static void __attribute__((format(printf, 2, 3)))
print_line(struct mirror_output *m, const char *format, ...)
{
    va_list args;

    progress_clear(&m->progress);
    va_start(args, format);
    vsay(format, args);
    va_end(args);
}

/* Prints each trouble once, until something else happens: a source may be away
 * for days. */
static void
tell_trouble(struct mirror_output *m, const char *why)
{
    if (!m->is_verbose && !strncmp(m->trouble, why, sizeof(m->trouble) - 1))
        return;
    snprintf(m->trouble, sizeof(m->trouble), "%s", why);
    print_line(m, "%s", why);
}

static void
tell_event(struct mirror_output *m, const struct td_sync_event *e)
{
    const char *why = e->why ? e->why : "";

    switch (e->what) {
    case TD_SYNC_BASELINE:
        print_line(m, "a baseline is taken: %s", why);
        return;
    case TD_SYNC_FAILED:
        if (m->is_verbose)
            print_line(m, "%s: %s; it is tried again", e->loc ? e->loc : "",
                       why);
        return;
    case TD_SYNC_LEFT:
        print_line(m, "%s: given up: %s", e->loc ? e->loc : "", why);
        return;
    case TD_SYNC_TROUBLE:
        tell_trouble(m, why);
        return;
    case TD_SYNC_CAUGHT_UP:
        if (m->is_verbose)
            print_line(m, "caught up at %s", e->position ? e->position : "-");
        return;
    case TD_SYNC_WRITTEN:
        if (m->is_verbose)
            print_line(m, "written: %s", e->path);
        return;
    case TD_SYNC_DELETED:
        if (m->is_verbose)
            print_line(m, "deleted: %s", e->path);
        return;
    default:
        return;
    }
}

void
mirror_output_event(const struct td_sync_event *event, void *user)
{
    struct mirror_output *m = user;

    m->last = *event;
    if (event->what == TD_SYNC_CAUGHT_UP && event->position)
        snprintf(m->position, sizeof(m->position), "%s", event->position);
    if (m->is_json) {
        put_event(m, event);
        return;
    }
    if (event->what != TD_SYNC_PROGRESS && event->what != TD_SYNC_TROUBLE)
        m->trouble[0] = '\0';
    tell_event(m, event);
    progress_show(&m->progress, event);
}

/*
 * progress.c - one line that shows how far a mirror is.
 */
#include "client/cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define BAR       20
#define DRAW_MS   200
#define MEASURE_S 1.0 /* shortest time for a rate */
#define KEEP      0.7 /* weight of the old rate */
#define COLUMNS   80  /* if the terminal does not say */
#define LINE_MAX_ 200

void
progress_init(struct progress *p)
{
    memset(p, 0, sizeof(*p));
    p->is_on = isatty(STDERR_FILENO) == 1;
}

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

void
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

void
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

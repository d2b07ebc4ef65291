#include "client/cli/progress.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/tidings.h"
#include "proto/slice.h"

#define BAR       20
#define DRAW_MS   200
#define MEASURE_S 1.0 /* shortest time for a rate */
#define KEEP      0.7 /* weight of the old rate */
#define COLUMNS   80  /* if the terminal does not say */
#define LINE_MAX_ 200

static struct {
    bool is_on;
    int64_t drawn_ms;
    int64_t measured_ms; /* time of the rates; 0: never */
    uint64_t done;       /* then */
    uint64_t bytes;      /* then */
    bool has_rates;
    double done_per_s; /* of the last seconds, smoothed */
    double bytes_per_s;
} progress;

/* Characters of the line that the terminal shows; 0: none. A signal handler
 * reads it. */
static volatile sig_atomic_t width;

/* "\r", LINE_MAX_ blanks, "\r" for every width: only its ends are used. */
static char blanks[LINE_MAX_ + 2];

/* Figures */

static void
measure_rate(const struct progress_figures *f, int64_t now_ms)
{
    double seconds = (double)(now_ms - progress.measured_ms) / 1000;
    uint64_t n_bytes = f->unit ? f->bytes : f->done;
    bool is_first = progress.measured_ms == 0 || f->done < progress.done;

    if (!is_first && seconds < MEASURE_S)
        return;
    if (is_first) {
        progress.has_rates = false;
    } else {
        double keep = progress.has_rates ? KEEP : 0;
        double done = (double)(f->done - progress.done);
        double bytes = (double)(n_bytes - progress.bytes);

        progress.done_per_s =
            keep * progress.done_per_s + (1 - keep) * done / seconds;
        progress.bytes_per_s =
            keep * progress.bytes_per_s + (1 - keep) * bytes / seconds;
        progress.has_rates = true;
    }
    progress.measured_ms = now_ms ? now_ms : 1;
    progress.done = f->done;
    progress.bytes = n_bytes;
}

const char *
bytes_text(double bytes, char to[BYTES_TEXT_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(to, BYTES_TEXT_SIZE, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s",
             bytes, units[unit]);
    return to;
}

/* The longer of the times for the units and for the bytes: either may be the
 * bottleneck, and some lengths are unknown. "": unknown. */
static void
write_left(char *to, size_t size, const struct progress_figures *f)
{
    double units = progress.done_per_s > 0 && f->all > f->done
                       ? (double)(f->all - f->done) / progress.done_per_s
                       : -1;
    double bytes = progress.bytes_per_s > 0 && f->bytes_left
                       ? (double)f->bytes_left / progress.bytes_per_s
                       : -1;
    double seconds = units > bytes ? units : bytes;
    unsigned long s = (unsigned long)(seconds + 0.5);

    to[0] = '\0';
    if (!progress.has_rates || seconds < 0 || seconds > 99.0 * 3600)
        return;
    if (s >= 3600)
        snprintf(to, size, "  %lu:%02lu:%02lu left", s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(to, size, "  %lu:%02lu left", s / 60, s % 60);
}

/* "412 of 1024 files  1 failed  38.2 MB", or "12.8 MB of 38.2 MB" */
static void
write_amounts(char *to, size_t size, const struct progress_figures *f)
{
    char failed[40] = "", bytes[BYTES_TEXT_SIZE] = "", all[BYTES_TEXT_SIZE];

    if (!f->unit) {
        snprintf(to, size, "%s of %s", bytes_text((double)f->done, bytes),
                 bytes_text((double)f->all, all));
        return;
    }
    if (f->failed)
        snprintf(failed, sizeof(failed), "  %" PRIu64 " failed", f->failed);
    if (f->has_bytes)
        bytes_text((double)f->bytes, bytes);
    snprintf(to, size, "%" PRIu64 " of %" PRIu64 " %s%s%s%s", f->done, f->all,
             f->unit, failed, f->has_bytes ? "  " : "", bytes);
}

/* Writes the line, no longer than `columns`; `to` has room for LINE_MAX_. */
static void
write_line(char *to, size_t columns, const struct progress_figures *f,
           int64_t now_ms)
{
    size_t full = f->all && f->done < f->all
                      ? (size_t)((double)f->done / (double)f->all * BAR)
                      : BAR;
    char amounts[120], rate[BYTES_TEXT_SIZE], speed[40] = "", left[40];
    int size;

    if (f->label && f->unit)
        size = snprintf(to, LINE_MAX_, "%s: %" PRIu64 " %s", f->label, f->done,
                        f->unit);
    else if (f->label)
        size = snprintf(to, LINE_MAX_, "%s", f->label);
    else {
        measure_rate(f, now_ms);
        write_amounts(amounts, sizeof(amounts), f);
        if (progress.has_rates && (f->has_bytes || !f->unit))
            snprintf(speed, sizeof(speed), "  %s/s",
                     bytes_text(progress.bytes_per_s, rate));
        write_left(left, sizeof(left), f);
        size = snprintf(to, LINE_MAX_, "[%.*s%.*s]  %s%s%s", (int)full,
                        "####################", (int)(BAR - full),
                        "....................", amounts, speed, left);
    }
    if (size < 0 || (size_t)size > columns)
        to[size < 0 ? 0 : columns] = '\0';
}

/* The terminal */

/* Overwrites the line with blanks. Safe in a signal handler. */
void
progress_clear(void)
{
    size_t size = (size_t)width;
    ssize_t n = 0;

    if (size == 0)
        return;
    n += write(STDERR_FILENO, blanks, size + 1);
    n += write(STDERR_FILENO, "\r", 1);
    width = 0;
    (void)n;
}

/* A signal that nobody handles ends the process. */
static void
on_deadly_signal(int number)
{
    progress_clear();
    signal(number, SIG_DFL);
    raise(number);
}

void
progress_begin(bool is_wanted)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const char *terminal = getenv("TERM");

    progress.is_on = is_wanted && isatty(STDERR_FILENO) == 1 &&
                     !(terminal && !strcmp(terminal, "dumb"));
    if (!progress.is_on)
        return;
    memset(blanks, ' ', sizeof(blanks));
    blanks[0] = '\r';
    for (size_t i = 0; i < N_ELEMENTS(numbers); i++) {
        struct sigaction action = {.sa_handler = on_deadly_signal};
        struct sigaction now;

        if (!sigaction(numbers[i], NULL, &now) && now.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    }
}

void
progress_show(const struct progress_figures *figures)
{
    char line[LINE_MAX_], text[2 * LINE_MAX_];
    int64_t now = progress.is_on ? clock_steady_ms() : 0;
    struct winsize terminal = {0};
    size_t columns = COLUMNS, size, padding;

    if (!progress.is_on || (width && now - progress.drawn_ms < DRAW_MS))
        return;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &terminal) && terminal.ws_col >= 2)
        columns = terminal.ws_col < LINE_MAX_ ? terminal.ws_col : LINE_MAX_;
    write_line(line, columns - 1, figures, now);
    size = strlen(line);
    padding = (size_t)width > size ? (size_t)width - size : 0;
    snprintf(text, sizeof(text), "\r%s%*s", line, (int)padding, "");
    width = (sig_atomic_t)(size + padding); /* before a signal may come */
    fputs(text, stderr);
    progress.drawn_ms = now;
}

/* The handle */

static void
on_client_progress(const struct td_progress *p, void *user)
{
    struct progress_figures figures = {.done = p->done, .all = p->all};

    (void)user;
    if (p->what != TD_PROGRESS_SENT)
        figures.unit = "resources";
    if (p->what == TD_PROGRESS_READ)
        figures.label = "reading the list";
    else if (p->what == TD_PROGRESS_SENT && p->done >= p->all)
        figures.label = "waiting for the broker";
    progress_show(&figures);
}

void
progress_of_client(struct td_client *client)
{
    if (progress.is_on)
        td_on_progress(client, on_client_progress, NULL);
}

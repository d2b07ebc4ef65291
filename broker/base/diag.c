#include "broker/base/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/base/clock.h"
#include "proto/datetime.h"

/* Room for the longest problem (problem.h) with some words around it; small
 * enough that a pipe takes the line in one piece (PIPE_BUF is 4,096). */
#define LINE_SIZE_MAX 1000

/* "2026-11-20T07:43:00.123": datetime_write's six decimals, cut to three. */
#define TIME_SIZE 23

static enum diag_level loudest = DIAG_INFO;

static const char *const names[] = {"error", "warning", "info", "debug"};

void
diag_set_level(enum diag_level level)
{
    loudest = level;
}

enum status
diag_level_of(struct slice name, enum diag_level *level)
{
    for (int i = DIAG_ERROR; i <= DIAG_DEBUG; i++)
        if (slice_is(name, names[i])) {
            *level = (enum diag_level)i;
            return STATUS_OK;
        }
    return STATUS_INVALID;
}

/* A line must stay one line, and must not command the operator's terminal:
 * C0 controls, DEL, and in UTF-8 the C1 controls (C2 80 to C2 9F). */
static void
replace_controls(unsigned char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool is_c1 = text[i] == 0xc2 && i + 1 < size && text[i + 1] >= 0x80 &&
                     text[i + 1] < 0xa0;

        if (text[i] < 0x20 || text[i] == 0x7f || is_c1)
            text[i] = '?';
        if (is_c1)
            text[++i] = '?';
    }
}

/* The size to cut `text` to, so that it is at most `max` and ends with a whole
 * UTF-8 character. */
static size_t
cut_size(const char *text, size_t max)
{
    while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

void
diag(enum diag_level level, const char *area, const char *format, ...)
{
    static const char dots[] = "...";
    int saved = errno;
    char line[LINE_SIZE_MAX + 2]; /* one more, then NUL or "\n" */
    char now[DATETIME_SIZE];
    size_t size;
    ssize_t written;
    int n;
    va_list args;

    if (level > loudest)
        return;

    datetime_write(now, clock_now_us());
    size = (size_t)snprintf(line, sizeof(line), "%.*sZ %-5s %.32s: ", TIME_SIZE,
                            now, names[level], area);
    va_start(args, format);
    n = vsnprintf(line + size, sizeof(line) - size, format, args);
    va_end(args);
    if (n > 0)
        size += (size_t)n;
    if (size > LINE_SIZE_MAX) {
        size = cut_size(line, LINE_SIZE_MAX - (sizeof(dots) - 1));
        memcpy(line + size, dots, sizeof(dots) - 1);
        size += sizeof(dots) - 1;
    }

    replace_controls((unsigned char *)line, size);
    line[size++] = '\n';

    /* One write, so that lines of several threads do not mix. If it fails,
     * there is nobody to tell. */
    written = write(STDERR_FILENO, line, size);
    (void)written;
    errno = saved;
}

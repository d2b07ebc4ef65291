/*
 * diag.h - diagnostic lines on standard error, for the operator and for what
 * collects them: logfmt, one line each.
 *
 *   time=2026-11-20T07:43:00.123Z level=info part=log msg="a list is filed"
 *   set=demo list=3
 *
 * (in one line). A value is quoted where it is not plain, and always in msg.
 * Whatever somebody else's bytes are, a line stays one line of UTF-8 and does
 * not command a terminal: control characters, those that break lines or turn
 * their direction, quotes and backslashes are escaped as JSON does it, and what
 * is not UTF-8 becomes U+FFFD. A line has at most DIAG_LINE_MAX bytes; what
 * does not fit is cut, its last value ending in "...".
 *
 * A fault that repeats must not fill a disk: of each place that writes (part
 * and text of its message, as it stands in the source) DIAG_BURST lines a
 * minute are written; the next one after that carries suppressed=N, and
 * diag_end tells what is left. Nothing is left out at level debug, and of what
 * an operator has asked for (DIAG_REPORT).
 *
 * Any thread; a line is written with one write().
 */
#ifndef BROKER_BASE_DIAG_H
#define BROKER_BASE_DIAG_H

#include <stdint.h>

#include "proto/slice.h"
#include "proto/status.h"

/* Below PIPE_BUF (4,096), so that a pipe takes a line in one piece; room for
 * the longest problem (problem.h), escaped, and some keys. */
#define DIAG_LINE_MAX 2000

#define DIAG_BURST 10

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_INFO, DIAG_DEBUG };

/* Lines above `level` are not written from now on. Any thread. */
void diag_set_level(enum diag_level level);

/* "error", "warning", "info", "debug". STATUS_INVALID: none of these. */
MUST_CHECK enum status diag_level_of(struct slice name, enum diag_level *level);

/* A sentence. `part` is the folder that says it. */
void diag(enum diag_level level, const char *part, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sentence that is always the same, and keys (at least one) with what is
 * particular:
 *
 *     DIAG(DIAG_INFO, "log", "a list is filed", diag_text("set", name),
 *          diag_number("list", number));
 */
#define DIAG(level, part, msg, ...)   \
    diag_keys((level), (part), (msg), \
              (const struct diag_key[]){__VA_ARGS__, {NULL, NULL, 0}})

struct diag_key {
    const char *name; /* letters and _; NULL ends the keys */
    const char *text; /* NULL: it is a number */
    uint64_t number;
};

static inline struct diag_key
diag_text(const char *name, const char *text)
{
    return (struct diag_key){name, text, 0};
}

static inline struct diag_key
diag_number(const char *name, uint64_t number)
{
    return (struct diag_key){name, NULL, number};
}

void diag_keys(enum diag_level level, const char *part, const char *msg,
               const struct diag_key *keys);

/* The same for the report of what an operator has asked for, such as a reload:
 * every line is written that `level` allows. */
#define DIAG_REPORT(level, part, msg, ...) \
    diag_report((level), (part), (msg),    \
                (const struct diag_key[]){__VA_ARGS__, {NULL, NULL, 0}})

/* `keys` may be NULL. */
void diag_report(enum diag_level level, const char *part, const char *msg,
                 const struct diag_key *keys);

/* Tells of what was left out and not told yet. At the end of the process. */
void diag_end(void);

#endif

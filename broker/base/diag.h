/*
 * diag.h - diagnostic lines on standard error, for operators and collectors of
 * logs: one line each, in logfmt or JSON (log_line.h).
 *
 *   time=2026-11-20T07:43:00.123Z level=info part=log msg="a list is filed"
 *   set=demo list=3
 *
 * (in one line). A line that a thread writes while it works for a request has
 * the id of the request (request=ID).
 *
 * A repeated fault must not fill a disk: each place (part and text of its
 * message, as in the source) writes at most DIAG_BURST lines a minute. The next
 * line after that has suppressed=N, and diag_end writes the last counts. At
 * level debug, and in a report that an operator requested (DIAG_REPORT), every
 * line is written.
 *
 * Any thread; a line is written with one write().
 */
#pragma once

#include "broker/base/log_line.h"

#define DIAG_LINE_MAX LOG_LINE_MAX

#define DIAG_BURST 10

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_INFO, DIAG_DEBUG };

/* From now on lines above `level` are not written. Any thread. */
void diag_set_level(enum diag_level level);

/* Writes a sentence. `part` is the name of the calling folder. */
void diag(enum diag_level level, const char *part, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a sentence that is always the same, and keys (at least one) with the
 * particulars:
 *
 *     DIAG(DIAG_INFO, "log", "a list is filed", diag_text("set", name),
 *          diag_number("list", number));
 */
#define DIAG(level, part, msg, ...)   \
    diag_keys((level), (part), (msg), \
              (const struct diag_key[]){__VA_ARGS__, {NULL, NULL, 0}})

struct diag_key {
    const char *name; /* letters and _; NULL ends the keys */
    const char *text; /* NULL: a number */
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

/* Logs the first of several failures of something, as a warning with the key
 * "error". *is_failing is from the last time, and becomes `fails`. */
static inline void
diag_first_failure(bool *is_failing, bool fails, const char *part,
                   const char *msg, const char *error)
{
    if (fails && !*is_failing)
        DIAG(DIAG_WARNING, part, msg, diag_text("error", error));
    *is_failing = fails;
}

/* The same, and logs `again` when the failures end: at the same level, so a log
 * with the first line has the second. */
static inline void
diag_failure(bool *is_failing, bool fails, const char *part, const char *msg,
             const char *error, const char *again)
{
    if (!fails && *is_failing)
        diag_keys(DIAG_WARNING, part, again, NULL);
    diag_first_failure(is_failing, fails, part, msg, error);
}

/* The same for a report that an operator requested, such as of a reload: writes
 * every line that `level` allows. */
#define DIAG_REPORT(level, part, msg, ...) \
    diag_report((level), (part), (msg),    \
                (const struct diag_key[]){__VA_ARGS__, {NULL, NULL, 0}})

/* `keys` may be NULL. */
void diag_report(enum diag_level level, const char *part, const char *msg,
                 const struct diag_key *keys);

/* The lines of the calling thread between the two calls name the request `id`,
 * which is lent until then. */
void diag_begin_request(struct slice id);
void diag_end_request(void);

/* Writes the last counts of suppressed lines. At the end of the process. */
void diag_end(void);

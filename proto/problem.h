/*
 * problem.h - why something failed: one sentence for the reader of the answer.
 *
 * A pointer to a problem may be NULL everywhere: nobody asks.
 */
#pragma once

#include "proto/slice.h"
#include "proto/status.h"

/* Longest piece of somebody else's text that a problem quotes, in bytes. */
#define PROBLEM_QUOTE_MAX 80

struct problem {
    char text[1024]; /* UTF-8, no control characters, no full stop at the end */
    uint64_t
        entry;     /* which entry of the input, from 1; 0: none in particular */
    uint64_t line; /* which line of the input, from 1; 0: unknown */
    enum status rc;         /* of the function that wrote the text */
    unsigned http_status;   /* of the answer that was the reason; 0: none */
    unsigned retry_after_s; /* of the same answer; 0: it asked for nothing */
    bool is_limit; /* of what the process may take: another attempt does not
                      help */
};

/* Writes the sentence and `rc`, and clears is_limit; the other fields stay.
 * Control characters become spaces, bytes that are no UTF-8 '?': parts of the
 * text are another's, and it ends on terminals. Secrets in addresses are hidden
 * (shown_address.h). A text that is too long is cut after a character. Returns
 * `rc`. */
enum status problem(struct problem *why, enum status rc, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));
enum status problem_vset(struct problem *why, enum status rc,
                         const char *format, va_list arguments);

/* The same sentence at many places: `what: "quoted"`, with `quoted` cut as
 * problem_quote does. */
enum status problem_quoting(struct problem *why, enum status rc,
                            const char *what, struct slice quoted);

/* The same without a status: `rc` stays. */
void problem_set(struct problem *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts words before the text, "the manifest of URL: ", and writes `rc`, which
 * it returns; the other fields stay. */
enum status problem_prefix(struct problem *why, enum status rc,
                           const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void problem_clear(struct problem *why);

/* Nobody says it in other words. */
#define NO_MEMORY "no memory left"

/* For a problem that begins with it. */
#define PROBLEM_MEMORY                         \
    {                                          \
        .text = NO_MEMORY, .rc = STATUS_MEMORY \
    }

/* NO_MEMORY; returns STATUS_MEMORY. `why` may be NULL. */
enum status problem_memory(struct problem *why);

/* Why `b` failed, if it did: "WHAT is longer than N bytes" over its maximum,
 * STATUS_TOO_LARGE, or NO_MEMORY. STATUS_OK: it has not failed. */
struct buf;
enum status problem_buf(struct problem *why, const struct buf *b,
                        const char *what);

/* "WHAT NAME: No such file or directory", from errno as it stands; returns
 * STATUS_IO. */
enum status problem_errno(struct problem *why, const char *what,
                          const char *name);

/* A copy of hostile text that is safe to quote: cut to PROBLEM_QUOTE_MAX bytes
 * at a character boundary, control characters and invalid UTF-8 replaced by
 * '?'. Returned by value so that it can stand in an argument list:
 * problem_set(why, "no such change: \"%s\"", problem_quote(text).text). */
struct problem_quote {
    char text[PROBLEM_QUOTE_MAX + 4];
};

struct problem_quote problem_quote(struct slice text);

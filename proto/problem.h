/*
 * problem.h - why something failed: one sentence for the reader of the answer.
 *
 * A pointer to a problem may be NULL everywhere: nobody asks.
 */
#ifndef PROTO_PROBLEM_H
#define PROTO_PROBLEM_H

#include <stdint.h>

#include "proto/slice.h"
#include "proto/status.h"

/* Longest piece of somebody else's text that a problem quotes, in bytes. */
#define PROBLEM_QUOTE_MAX 80

struct problem {
    char text[512]; /* UTF-8, no full stop at the end */
    uint64_t
        entry;     /* which entry of the input, from 1; 0: none in particular */
    uint64_t line; /* which line of the input, from 1; 0: unknown */
};

/* Writes the sentence; a text that is too long is cut. */
void problem_set(struct problem *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, and returns `rc`: `return problem(why, STATUS_INVALID, "...")`. */
MUST_CHECK enum status problem(struct problem *why, enum status rc,
                               const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Nobody says it in other words. */
#define NO_MEMORY "no memory left"

/* For a problem that begins with it. */
#define PROBLEM_MEMORY  \
    {                   \
        NO_MEMORY, 0, 0 \
    }

/* NO_MEMORY; returns STATUS_MEMORY. `why` may be NULL. */
enum status problem_memory(struct problem *why);

/* "WHAT NAME: No such file or directory", from errno as it stands. */
void problem_errno(struct problem *why, const char *what, const char *name);

/* A copy of hostile text that is safe to quote: cut to PROBLEM_QUOTE_MAX bytes
 * at a character boundary, control characters and invalid UTF-8 replaced by
 * '?'. Returned by value so that it can stand in an argument list:
 * problem_set(why, "no such change: \"%s\"", problem_quote(text).text). */
struct problem_quote {
    char text[PROBLEM_QUOTE_MAX + 4];
};

struct problem_quote problem_quote(struct slice text);

#endif

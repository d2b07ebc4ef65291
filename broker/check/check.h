/*
 * check.h - looks at a data directory, beside a broker or without one: does
 * everything that its databases refer to exist, is it what was written, and
 * does every file have a row?
 *
 * Writes nothing. Without a broker it shares the directory's lock, so none can
 * start meanwhile.
 *
 *     check.c         the table of parts, and second looks
 *     check_*.c       the parts (checks.h)
 *     inspection.h    databases, findings and counts of one look
 *     databases.h     databases and their versions
 */
#pragma once

#include "proto/problem.h"

struct check_options {
    char data[4096];
    char archive[1024]; /* as the broker has it; "": not asked */
    char credentials[4096];
    bool is_deep; /* also computed data against the log, and all bytes */
};

/* Checks the directory, and prints each finding and a summary.
 * STATUS_NOT_FOUND: there is no data directory. */
MUST_CHECK enum status check_run(const struct check_options *options, FILE *to,
                                 uint64_t *n_findings, struct problem *why);

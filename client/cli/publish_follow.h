/*
 * publish_follow.h - tidings publish --follow: posts lines as they come.
 */
#pragma once

#include "client/cli/cli.h"

struct follow_plan {
    const char *set_url;
    const char *input;   /* a file, FIFO or device; "-": standard input */
    const char *state;   /* the spool, or a directory that has it */
    const char *rejects; /* takes refused lines; NULL: the first one ends it */
    uint64_t spool_bytes;
    unsigned drain_ms; /* how long the end waits for the broker */
    bool ignores_unknown;
    bool is_verbose;
};

/* Posts lines until the input ends or a signal comes, then waits until all are
 * durable, for plan->drain_ms. EXIT_GOOD: all are. */
enum exit_code publish_follow(const struct arguments *arguments,
                              const struct follow_plan *plan);

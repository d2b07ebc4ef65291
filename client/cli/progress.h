/*
 * progress.h - one line that shows how far a mirror is, redrawn in place; on a
 * terminal alone.
 *
 *     [########............]  412 of 1024 files  38.2 MB  4.1 MB/s  0:13 left
 */
#ifndef CLIENT_CLI_PROGRESS_H
#define CLIENT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/tidings.h"

struct progress {
    bool is_on; /* standard error is a terminal */
    bool is_drawn;
    int64_t drawn_ms;
    int64_t measured_ms; /* time of the rates; 0: never */
    uint64_t n_done;     /* then */
    uint64_t bytes_done;
    bool has_rates;
    double files_per_s; /* of the last seconds, smoothed */
    double bytes_per_s;
};

void progress_init(struct progress *progress);

/* The line for `event` at `now_ms` of any steady clock, no longer than
 * `columns`. Takes the rates. */
void progress_line(struct progress *progress, const struct td_sync_event *event,
                   int64_t now_ms, char *to, size_t columns);

/* Draws the line, a few times a second at most. */
void progress_show(struct progress *progress,
                   const struct td_sync_event *event);

/* Removes the line, to make room for other output. */
void progress_clear(struct progress *progress);

#endif

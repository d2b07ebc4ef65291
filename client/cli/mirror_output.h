/*
 * mirror_output.h - what `tidings sync` and `tidings audit` share: a client
 * that signals stop, options, events as lines.
 */
#ifndef CLIENT_CLI_MIRROR_OUTPUT_H
#define CLIENT_CLI_MIRROR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/cli.h"
#include "client/tidings.h"

/* Prints what a reading of lists mended and left out, a line each. */
void mirror_output_report(const struct td_report *report);

/* Says that rows left out are the reason of exit status 1. */
enum exit_code mirror_output_left_out(void);

/* Prints that deletions are held back, or no longer. */
void mirror_output_held(uint64_t n, uint64_t n_of);

/* Shows events: as JSON lines on standard output; else problems on standard
 * error, and a bar there if that is a terminal. */
struct mirror_output {
    struct td_limits limits; /* of the handle */
    bool is_json;
    bool is_verbose;           /* each file, too */
    bool has_no_progress;      /* --no-progress */
    char as_of[40];            /* the earliest set is complete as of; "" */
    bool is_doubtful;          /* some set is not known to be complete */
    bool is_deaf;              /* the reader closed standard output */
    bool skips_bad;            /* --skip-bad */
    bool has_left_out;         /* rows that cannot be used */
    int error;                 /* why; of errno.h */
    struct td_client *client;  /* stopped if is_deaf */
    struct td_sync_event last; /* numbers alone */
    char position[TD_POSITION_SIZE]; /* the last caught-up one */
    char trouble[256];               /* the last one printed; "": none */
};

/* Opens m->client for the server at `url`, and shows the bar unless m->is_json.
 * `url` NULL: refuses --header, as no server is known. SIGINT and SIGTERM stop
 * the handle, which stays until the process ends: a signal may still come.
 * Prints the reason if the code is not EXIT_GOOD. */
enum exit_code mirror_output_open(struct mirror_output *m,
                                  const struct arguments *arguments,
                                  const char *url);

void mirror_output_event(const struct td_sync_event *event, void *mirrored);

/* Ends a JSON line. */
void mirror_output_end_line(struct mirror_output *mirrored);

#endif

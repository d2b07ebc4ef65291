/*
 * mirrored.h - what `tidings sync` and `tidings audit` have in common: a client
 * that signals stop, options, events as lines.
 */
#ifndef CLIENT_CLI_MIRRORED_H
#define CLIENT_CLI_MIRRORED_H

#include <stdbool.h>

#include "client/cli/cli.h"
#include "client/cli/progress.h"

/* A handle for the server at `url` that SIGINT and SIGTERM stop; `url` NULL: no
 * --header can be given, for nobody knows to whom. NULL: *code says how the
 * program ends, and why was said. It is left to the end of the process: a
 * signal may still come. */
struct td_client *mirrored_open(const struct arguments *arguments,
                                const char *url, enum exit_code *code);

/* A number from 1 to `most`; NULL, untouched, where `text` is. False: it is
 * none, and that was said. */
bool mirrored_number(const char *option, const char *text, unsigned most,
                     unsigned *number);

/* --max-delete: 1 to 100, or "none", which is -1. */
bool mirrored_max_delete(const char *text, int *percent);

/* Shows events: as JSON lines on standard output; else what went wrong on
 * standard error, and a bar there if that is a terminal. */
struct mirrored {
    bool is_json;
    bool is_verbose;                 /* each file, too */
    bool is_deaf;                    /* nobody reads the lines any more */
    int error;                       /* why; of errno.h */
    struct td_client *client;        /* is stopped then */
    struct td_sync_event last;       /* numbers alone */
    char position[TD_POSITION_SIZE]; /* of the last that was caught up */
    char trouble[256];               /* the last that was told; "": none */
    struct progress progress;
};

void mirrored_event(const struct td_sync_event *event, void *mirrored);

/* `"NAME":VALUE` for the JSON lines, with what stands before it; nothing where
 * `value` is NULL. */
void mirrored_put(const char *before, const char *name, const char *value);

/* Ends a JSON line. */
void mirrored_end_line(struct mirrored *mirrored);

#endif

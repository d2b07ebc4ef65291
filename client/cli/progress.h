/*
 * progress.h - one line that shows how far a command is, redrawn in place; on a
 * terminal alone.
 *
 *     [########............]  412 of 1024 files  38.2 MB  4.1 MB/s  0:13 left
 *     [########............]  12.8 MB of 38.2 MB  4.1 MB/s  0:06 left
 *     reading the list: 1024 resources
 *
 * It is drawn at most five times a second, is shorter than a line of the
 * terminal, and has no escape sequences. A process has one command, so there is
 * one of it. Messages (say) take its place; a command clears it before it
 * prints results. A signal that ends the process clears it, too.
 */
#pragma once

#include "proto/c.h"

struct td_client;

struct progress_figures {
    const char *label;  /* "reading the list": no bar; NULL: a bar */
    const char *unit;   /* of `done` and `all`: "files"; NULL: bytes, or with a
                           label nothing */
    uint64_t done, all; /* `all` is of a bar */
    uint64_t failed;    /* of a bar with a unit */
    bool has_bytes;     /* likewise: the units have bytes */
    uint64_t bytes, bytes_left;
};

/* Shows progress from now on if `is_wanted`, standard error is a terminal, and
 * TERM is not "dumb". */
void progress_begin(bool is_wanted);

/* Shows what the handle reports (td_on_progress). */
void progress_of_client(struct td_client *client);

void progress_show(const struct progress_figures *figures);

#define BYTES_TEXT_SIZE 24

/* "999 B", "38.2 MB" */
const char *bytes_text(double bytes, char to[BYTES_TEXT_SIZE]);

/* Removes the line, to make room for other output. */
void progress_clear(void);

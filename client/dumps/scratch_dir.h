/*
 * scratch_dir.h - a directory for packages while they are read: our own, inside
 * one that the caller names.
 *
 *     PATH/tidings-scratch-0/   locked (flock) by its user
 *          tidings-scratch-1/   by another user at the same time, in
 *                               this process or another one
 *
 * A user takes the first free directory. It removes the files that a crash left
 * there, but keeps incomplete packages, which a download may continue. It
 * removes all other unused directories completely. So nothing stays for ever,
 * and nobody else's files are touched.
 */
#pragma once

#include "proto/problem.h"

#define SCRATCH_NAME_SIZE 24

/* Files with this prefix are packages, which are kept (their notes, too). */
#define SCRATCH_PACKAGE "package-"

struct scratch {
    int fd;                       /* of our directory; -1: none */
    int above_fd;                 /* of the caller's directory */
    char name[SCRATCH_NAME_SIZE]; /* of our directory */
    char temporary[64];           /* the directory above, if it is ours, too */
};

#define SCRATCH_NONE ((struct scratch){.fd = -1, .above_fd = -1})

/* Creates both directories if needed (0700); the parent of `path` must exist.
 * `path` NULL: a new one among the temporary files. STATUS_IO. */
enum status scratch_open(struct scratch *scratch, const char *path,
                         struct problem *why);

/* `is_done`: removes all files; else keeps packages, unless the directory is
 * temporary. SCRATCH_NONE is allowed,
 * and is the result. */
void scratch_close(struct scratch *scratch, bool is_done);

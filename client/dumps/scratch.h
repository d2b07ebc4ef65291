/*
 * scratch.h - where packages are put while they are read: a directory that the
 * caller names, and in it one of our own.
 *
 *     PATH/tidings-scratch-0/   locked (flock) by whoever uses it
 *          tidings-scratch-1/   by another one at the same time, of this
 *                               process or of any other
 *
 * Whoever comes takes the first that is free. What a crash left in it is
 * removed, but not packages that came in part, which may be gone on with; all
 * others that nobody uses are removed whole. So nothing is left for ever, and
 * nobody's files but ours are touched.
 */
#ifndef CLIENT_DUMPS_SCRATCH_H
#define CLIENT_DUMPS_SCRATCH_H

#include <stdbool.h>

#include "client/lib/failure.h"

#define SCRATCH_NAME_SIZE 24

/* Files that begin so are packages, which are kept (their notes, too). */
#define SCRATCH_PACKAGE "package-"

struct scratch {
    int fd;                       /* of our directory; -1: none */
    int above_fd;                 /* of the one it is in */
    char name[SCRATCH_NAME_SIZE]; /* of ours in it */
};

#define SCRATCH_NONE ((struct scratch){.fd = -1, .above_fd = -1})

/* Makes what is not there (0700; the directory above `path` must be). TD_IO. */
enum td_status scratch_open(struct scratch *scratch, const char *path,
                            struct failure *why);

/* `is_done`: removes all that is left; else packages are kept. SCRATCH_NONE is
 * allowed, and is what it is then. */
void scratch_close(struct scratch *scratch, bool is_done);

#endif

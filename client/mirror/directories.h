/*
 * directories.h - the directories above files, each once.
 *
 * A file's name is durable when its directory is, and that one's name when the
 * one above it is: those between may be new themselves, or gone, which those
 * above them tell. So all are listed, up to the mirror's own, which is "".
 */
#ifndef CLIENT_MIRROR_DIRECTORIES_H
#define CLIENT_MIRROR_DIRECTORIES_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: there are none. */
struct directories {
    char **all; /* paths in the mirror, without a slash at the end */
    size_t n;
    size_t last; /* where those of the file before begin; its own is first */
};

/* Adds all that are above the file at `path`. False: no memory; what was added
 * before is still there. */
bool directories_add(struct directories *d, const char *path);

/* Sorts them; from then on each is there once, those above before those below.
 */
void directories_sort(struct directories *d);

void directories_clear(struct directories *d);

#endif

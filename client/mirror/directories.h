/*
 * directories.h - the directories above files, each once.
 *
 * A file's name is durable when its directory is on the disk, and the name of
 * that directory when the one above it is. Those between may be new or removed
 * themselves. So the list has all of them, up to the mirror's own, "".
 */
#ifndef CLIENT_MIRROR_DIRECTORIES_H
#define CLIENT_MIRROR_DIRECTORIES_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: there are none. */
struct directories {
    char **all; /* paths in the mirror, without a slash at the end */
    size_t n;
    size_t last; /* first directory of the last file; its own comes first */
};

/* Adds all directories above the file at `path`. False: no memory; earlier ones
 * stay in the list. */
bool directories_add(struct directories *d, const char *path);

/* Sorts them and drops repeats: each is there once, parents first. */
void directories_sort(struct directories *d);

void directories_clear(struct directories *d);

#endif

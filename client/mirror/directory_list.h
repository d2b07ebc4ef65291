/*
 * directory_list.h - the directories above files, each once.
 *
 * A file's name is durable when its directory is on the disk, and the name of
 * that directory when the one above it is. Those between may be new or removed
 * themselves. So the list has all of them, up to the mirror's own, "".
 */
#ifndef CLIENT_MIRROR_DIRECTORY_LIST_H
#define CLIENT_MIRROR_DIRECTORY_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: there are none. */
struct directory_list {
    char **all; /* paths in the mirror, without a slash at the end */
    size_t n;
    size_t last; /* first directory of the last file; its own comes first */
};

/* Adds all directories above the file at `path`. False: no memory; earlier ones
 * stay in the list. */
bool directory_list_add(struct directory_list *d, const char *path);

/* Sorts them and drops repeats: each is there once, parents first. */
void directory_list_sort(struct directory_list *d);

void directory_list_clear(struct directory_list *d);

#endif

/*
 * folder.h - how many files a folder has. Names that begin with a dot do not
 * count.
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

/* Fails if there is no such folder. */
unsigned folder_count(const char *path);

/* The same for the folder `name` in `dir`, a broker's data directory or so. */
unsigned folder_count_below(const char *dir, const char *name);

#endif

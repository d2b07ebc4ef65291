/*
 * syncs.h - would a file survive a power failure?
 *
 * A program that uses this has its own fsync, fdatasync, rename and renameat:
 * they do what the system's do, and keep a record.
 */
#ifndef TESTS_UNIT_BASE_SYNCS_H
#define TESTS_UNIT_BASE_SYNCS_H

#include <stdbool.h>

/* Forgets all earlier records. */
void syncs_begin(void);

/* True if the file was synced before it got its name, and its directory after
 * that. */
bool syncs_keep_file(int dir_fd, const char *name);

/* True if the directory was synced. */
bool syncs_keep_directory(int dir_fd, const char *name);

#endif

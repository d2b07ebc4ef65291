/*
 * temporary_file.h - makes files that vanish when they are closed.
 *
 * They are in the directory where SQLite has its own temporary files, so that
 * one look at its file system (source_limits_look_at) covers both.
 */
#pragma once

#include "proto/problem.h"

/* Returns SQLITE_TMPDIR or TMPDIR of the environment, /var/tmp, /usr/tmp or
 * /tmp: the first directory that can be written, as SQLite chooses it; else
 * ".". Lent by the environment. */
const char *temporary_directory(void);

/* Opens a file without a name for reading and writing. The caller closes it.
 * -1: STATUS_IO. */
int temporary_file_open(struct problem *why);

/*
 * data_directory.h - which users of the machine may read a data directory, and
 * the public URL that it was served under.
 *
 *   option      data directory   folders of lists   lists   all other files
 *   owner       0700             0700               0600    0600
 *   group       0710             0750               0640    0600
 *   all         0711             0755               0644    0600
 *
 * New files and directories take their modes from the directory above (file.h).
 * So the mode of the data directory says which modes the files in it have. An
 * earlier version, or another value of the option, left another mode: then the
 * broker sets the modes of all files, once. It leaves alone files of other
 * users, and its user's own rights: files that the broker did not make may lie
 * there.
 *
 *   tidings-data/public-url        "https://example.org\n"
 *
 * Closed documents keep their URLs. So the broker warns the
 * administrator when the public URL has changed. The URL has a file of its own,
 * not a row of tidings.db: only a warning depends on it, the broker writes it
 * before it serves the log, and it survives when the database is made anew from
 * the lists.
 *
 * The caller has the directory's lock. The functions may block.
 */
#pragma once

#include <sys/types.h>

#include "broker/config/config.h"

/* The folder of its set that an entry is in, or is. */
enum data_directory_place {
    DATA_DIRECTORY_WAY, /* leads to lists: the data directory, sets, a set */
    DATA_DIRECTORY_LISTS,
    DATA_DIRECTORY_OTHER
};

/* The bits of other users that a file or directory has at `place`, where
 * `passing` are those of the data directory (S_IXGRP, S_IXOTH). */
mode_t data_directory_others(enum data_directory_place place, bool is_dir,
                             mode_t passing);

/* Sets the modes of the data directory `dir` and of all files in it, unless
 * `dir` has the wanted mode. If that fails, logs a warning and leaves `dir`
 * closed to other users where it can: the broker works all the same. Call it
 * before the broker begins to write lists. */
void data_directory_set_readers(const char *dir, enum list_readers readers);

/* Reads the URL that `dir` was last served under. STATUS_NOT_FOUND: under
 * none. */
MUST_CHECK enum status data_directory_read_url(const char *dir, char *url,
                                               size_t size,
                                               struct problem *why);

/* Warns once if `dir` was last served under another URL than `url`, then
 * remembers `url`. */
void data_directory_remember_url(const char *dir, const char *url);

/*
 * file_modes.h - which users of the machine may read a data directory.
 *
 *   option      data directory   folders of lists   lists   all other files
 *   owner       0700             0700               0600    0600
 *   group       0710             0750               0640    0600
 *   all         0711             0755               0644    0600
 *
 * New files and directories take their modes from the directory above (file.h).
 * So the mode of the data directory tells which modes the files in it have. An
 * earlier version, or another value of the option, left another mode: then the
 * broker sets the modes of all files, once. It leaves alone files of other
 * users, and its user's own rights: files that the broker did not make may lie
 * there.
 */
#ifndef BROKER_SETS_FILE_MODES_H
#define BROKER_SETS_FILE_MODES_H

#include "broker/config/config.h"

/* Sets the modes of the data directory `dir` and of all files in it, unless
 * `dir` has the wanted mode. If that fails, logs a warning and leaves `dir`
 * closed to other users where it can: the broker works all the same. The caller
 * has the directory's lock, and has not begun to write lists. May block. */
void file_modes_settle(const char *dir, enum list_readers readers);

#endif

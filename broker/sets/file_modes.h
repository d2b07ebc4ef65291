/*
 * file_modes.h - which users of the machine may read a data directory.
 *
 *   option      data directory   folders of lists   lists   all other files
 *   owner       0700             0700               0600    0600
 *   group       0710             0750               0640    0600
 *   all         0711             0755               0644    0600
 *
 * What is made later takes its mode from the directory above (file.h). So the
 * mode of the data directory says which modes the files in it have: a directory
 * of an earlier version, or one that was started with another option, has
 * another mode, and is gone through once.
 */
#ifndef BROKER_SETS_FILE_MODES_H
#define BROKER_SETS_FILE_MODES_H

#include "broker/base/config.h"

/* Sets the modes of the data directory `dir` and of all that is in it, unless
 * it has the wanted one. Warns if that fails, which leaves `dir` closed to
 * others, if it is ours: the broker can do its work all the same. The caller
 * has the directory's lock, and has not begun to write lists. May block. */
void file_modes_settle(const char *dir, enum list_readers readers);

#endif

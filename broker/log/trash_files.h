/*
 * trash_files.h - deletes files that the broker no longer announces, in steps.
 *
 * The files of removed sets and lists stay for a while, because readers may
 * still use them (log_read of a list that was begun before). When they are due,
 * the files go first, then their rows. A crash in between leaves rows without
 * files, which the next process finds again.
 */
#ifndef BROKER_LOG_TRASH_FILES_H
#define BROKER_LOG_TRASH_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Deletes some files of `trash` in the data directory `dir`, durably. *upto:
 * the last list whose file is gone now. An earlier call may have deleted a
 * missing file. `is_alone`: no set has that name now, so all other files of the
 * folder go with the last list. STATUS_AGAIN: more of these are left. Archive
 * thread. */
MUST_CHECK enum status trash_files_unlink(const char *dir,
                                          const struct engine_trash *trash,
                                          bool is_alone, uint64_t *upto,
                                          struct problem *why);

#endif

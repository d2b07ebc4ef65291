/*
 * trash.h - files that nobody is told of any more: off the disk, in steps.
 *
 * What a removed set or retention leaves behind stays for a while, because
 * somebody may still be reading it (log_read of a list that was begun before);
 * when it is due, files go first, then the rows that tell of them. A crash in
 * between leaves rows without files, which are found again at the next start.
 */
#ifndef BROKER_LOG_TRASH_H
#define BROKER_LOG_TRASH_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Takes some files of `trash` off the disk, the data directory being `dir`; on
 * disk when it returns. *upto: the last list whose file is gone now. A file
 * that is not there was taken before. `is_alone`: no set has that name now:
 * with the last list goes all else that was kept in its folder. STATUS_AGAIN:
 * of that there is more. Archive thread. */
MUST_CHECK enum status trash_unlink(const char *dir,
                                    const struct engine_trash *trash,
                                    bool is_alone, uint64_t *upto,
                                    struct problem *why);

#endif

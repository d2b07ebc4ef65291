/*
 * new_data.h - a data directory while it is restored.
 *
 *     empty --begin--> locked, with the file STORE_RESTORING --end--> all is on
 *     the disk, and the file is gone: a data directory
 *
 * A restore that was cut off leaves the file, and no broker uses the directory.
 */
#pragma once

#include "proto/problem.h"

struct new_data {
    const char *path;   /* lent */
    int fd, lock;       /* -1: none */
    bool begins_epochs; /* set by the caller before new_data_end: readers may
                           have more of its logs (LOG_NEW_EPOCHS) */
};

/* Makes and locks the directory. STATUS_INVALID: it is not empty. After a
 * failure call new_data_close. */
MUST_CHECK enum status new_data_begin(struct new_data *data, const char *path,
                                      struct problem *why);

/* Brings all to the disk, and lets brokers in. */
MUST_CHECK enum status new_data_end(struct new_data *data, struct problem *why);

/* Closes it, after all other calls. Unless `rc` is STATUS_OK, first deletes
 * everything that was restored. */
void new_data_close(struct new_data *data, enum status rc);

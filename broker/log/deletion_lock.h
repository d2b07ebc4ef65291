/*
 * deletion_lock.h - a backup keeps a running broker from deleting files.
 *
 *     tidingsd backup    shares the lock from its first look to its last copy
 *     archive thread     takes it around each step that deletes; if a backup
 *                        shares it, leaves the step for later
 *
 * So a backup finds every file that the databases of its moment name, and the
 * broker waits for nothing. Retention stands still, too: a copied state then
 * lacks no entry that the copied log still has. The lock is that of the open
 * data directory (flock), so it ends with the process that has it.
 *
 * Archive thread, except deletion_lock_share.
 */
#ifndef BROKER_LOG_DELETION_LOCK_H
#define BROKER_LOG_DELETION_LOCK_H

#include <stdbool.h>

#include "proto/problem.h"
#include "proto/status.h"

struct deletion_lock {
    int fd;          /* of the data directory */
    bool is_refused; /* as of the last attempt: a backup copies files */
};

/* Opens the lock of the data directory `dir`, which exists. */
MUST_CHECK enum status deletion_lock_open(struct deletion_lock *lock,
                                          const char *dir, struct problem *why);
void deletion_lock_close(struct deletion_lock *lock);

/* Returns false if a backup copies files. True: the caller deletes some, then
 * calls deletion_lock_release. Also true where the file system has no locks:
 * no backup has shared one there. */
bool deletion_lock_take(struct deletion_lock *lock);
void deletion_lock_release(struct deletion_lock *lock);

/* For a backup: shares the lock of `dir`, and waits for the step that holds it.
 * The caller closes *fd, which ends the sharing. */
MUST_CHECK enum status deletion_lock_share(const char *dir, int *fd,
                                           struct problem *why);

#endif

#include "broker/log/deletion_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "broker/base/diag.h"

static enum status
open_dir(const char *dir, int *fd, struct problem *why)
{
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? problem_errno(why, "cannot open", dir) : STATUS_OK;
}

enum status
deletion_lock_open(struct deletion_lock *lock, const char *dir,
                   struct problem *why)
{
    lock->is_refused = false;
    return open_dir(dir, &lock->fd, why);
}

void
deletion_lock_close(struct deletion_lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}

bool
deletion_lock_take(struct deletion_lock *lock)
{
    bool is_refused =
        flock(lock->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;

    if (is_refused && !lock->is_refused)
        diag(DIAG_INFO, "log",
             "a backup copies files: none is deleted until it ends");
    if (!is_refused && lock->is_refused)
        diag(DIAG_INFO, "log", "no backup copies files any more");
    lock->is_refused = is_refused;
    return !is_refused;
}

void
deletion_lock_release(struct deletion_lock *lock)
{
    flock(lock->fd, LOCK_UN);
}

enum status
deletion_lock_share(const char *dir, int *fd, struct problem *why)
{
    enum status rc = open_dir(dir, fd, why);

    if (rc)
        return rc;
    while (flock(*fd, LOCK_SH)) {
        if (errno == EINTR)
            continue;
        rc = problem_errno(why, "cannot lock", dir);
        close(*fd);
        *fd = -1;
        return rc;
    }
    return STATUS_OK;
}

#include "client/dumps/scratch_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client/lib/temporary_file.h"

#define PREFIX "tidings-scratch-"

/* Users of one directory at the same time. */
#define USERS_MAX 1000

/* Removes the files of a directory, which holds only files; packages too if
 * `is_all`. */
static void
remove_files(int fd, bool is_all)
{
    DIR *dir = file_open_dir(fd, ".", 0);
    const struct dirent *entry;

    while ((entry = file_next(dir)))
        if (is_all || !slice_starts(slice_of(entry->d_name), SCRATCH_PACKAGE))
            unlinkat(fd, entry->d_name, 0);
    if (dir)
        closedir(dir);
}

/* -1: another user has the lock, or `name` is not ours: the last user may have
 * removed the directory that we opened, and another user made a new one. */
static int
lock_dir(int above_fd, const char *name)
{
    struct stat here, there;
    int fd =
        openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 &&
        (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &here) ||
         fstatat(above_fd, name, &there, AT_SYMLINK_NOFOLLOW) ||
         here.st_dev != there.st_dev || here.st_ino != there.st_ino ||
         here.st_uid != geteuid() || (here.st_mode & (S_IWGRP | S_IWOTH))))
        file_close(&fd);
    return fd;
}

/* Removes the directory `name` if nobody uses it. */
static void
sweep_dir(const struct scratch *scratch, const char *name)
{
    size_t size = strlen(PREFIX);
    int fd;

    /* The caller may have other names with the prefix. */
    if (strncmp(name, PREFIX, size) != 0 || !name[size] ||
        name[size + strspn(name + size, "0123456789")] ||
        !strcmp(name, scratch->name))
        return;
    fd = lock_dir(scratch->above_fd, name);
    if (fd < 0)
        return;
    remove_files(fd, true);
    unlinkat(scratch->above_fd, name, AT_REMOVEDIR);
    close(fd);
}

enum status
scratch_open(struct scratch *scratch, const char *path, struct problem *why)
{
    const struct dirent *entry;
    DIR *above;

    *scratch = SCRATCH_NONE;
    if (!path) {
        snprintf(scratch->temporary, sizeof(scratch->temporary),
                 "%s/tidings-XXXXXX", temporary_directory());
        path = scratch->temporary;
        if (!mkdtemp(scratch->temporary))
            return problem_errno(why, "cannot make a directory", path);
    }
    if (mkdir(path, 0700) && errno != EEXIST)
        return problem_errno(why, "cannot make", path);
    scratch->above_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Takes the first free directory. */
    for (int i = 0; scratch->above_fd >= 0 && scratch->fd < 0 && i < USERS_MAX;
         i++) {
        snprintf(scratch->name, sizeof(scratch->name), PREFIX "%d", i);
        if (mkdirat(scratch->above_fd, scratch->name, 0700) && errno != EEXIST)
            break;
        scratch->fd = lock_dir(scratch->above_fd, scratch->name);
        errno = EBUSY; /* if it is the last one */
    }
    if (scratch->fd < 0) {
        file_close(&scratch->above_fd);
        return problem_errno(why, "cannot use", path);
    }
    remove_files(scratch->fd, false);
    above = file_open_dir(scratch->above_fd, ".", 0);
    while ((entry = file_next(above)))
        sweep_dir(scratch, entry->d_name);
    if (above)
        closedir(above);
    return STATUS_OK;
}

void
scratch_close(struct scratch *scratch, bool is_done)
{
    if (scratch->fd < 0)
        return;
    remove_files(scratch->fd, is_done || scratch->temporary[0]);
    unlinkat(scratch->above_fd, scratch->name, AT_REMOVEDIR); /* if empty */
    if (scratch->temporary[0])
        rmdir(scratch->temporary);
    file_close(&scratch->fd);
    file_close(&scratch->above_fd);
}

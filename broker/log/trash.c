#include "broker/log/trash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/file.h"
#include "broker/log/closed.h"

/* Files in one step: a commit's worth of rows. */
#define STEP_FILES 64

/* What is not there was taken before. */
static enum status
unlink_name(int fd, const char *name, struct problem *why)
{
    if (!unlinkat(fd, name, 0) || errno == ENOENT)
        return STATUS_OK;
    problem_errno(why, "cannot remove", name);
    return STATUS_IO;
}

/* The file of a list, or what a crash left of one that was being written. */
static enum status
unlink_list(int fd, uint64_t number, struct problem *why)
{
    char name[CLOSED_FILE_MAX + sizeof(".new")];
    enum status rc;

    closed_file(name, number);
    rc = unlink_name(fd, name, why);
    strcat(name, ".new"); /* file.h */
    return rc ? rc : unlink_name(fd, name, why);
}

enum status
trash_unlink(const char *dir, const struct engine_trash *trash, uint64_t *upto,
             struct problem *why)
{
    char path[4096 + SET_NAME_MAX + 32];
    enum status rc = STATUS_OK;
    int n =
        snprintf(path, sizeof(path), "%s/sets/%s/changes", dir, trash->name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *upto = trash->last;
    if (fd < 0 && errno == ENOENT)
        return STATUS_OK;
    if (fd < 0) {
        problem_errno(why, "cannot open", path);
        return STATUS_IO;
    }
    if (trash->last >= trash->first + STEP_FILES)
        *upto = trash->first + STEP_FILES - 1;
    for (uint64_t i = trash->first; !rc && i <= *upto; i++)
        rc = unlink_list(fd, i, why);
    if (!rc)
        rc = file_sync_dir(fd, why);
    close(fd);
    /* Folders that are empty now go as well; a set that was made again has its
     * files in them. */
    if (!rc && *upto == trash->last && !rmdir(path)) {
        path[n - (int)sizeof("changes")] = '\0';
        rmdir(path);
    }
    return rc;
}

#include "broker/log/trash_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"

/* Files in one step: a commit's worth of rows; and of what has none. */
#define STEP_FILES 64
#define STEP_REST  1000

/* An earlier attempt may have deleted the file. */
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
    char name[LIST_FILE_NAME_MAX + sizeof(".new")];
    enum status rc;

    list_file_name(name, number);
    rc = unlink_name(fd, name, why);
    strcat(name, ".new"); /* file.h */
    return rc ? rc : unlink_name(fd, name, why);
}

static enum status
open_dir(const char *path, int *fd, struct problem *why)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0 || errno == ENOENT)
        return STATUS_OK;
    problem_errno(why, "cannot open", path);
    return STATUS_IO;
}

/* Some of the lists, up to *upto. */
static enum status
unlink_lists(const char *path, const struct engine_trash *trash, uint64_t *upto,
             struct problem *why)
{
    int fd;
    enum status rc = open_dir(path, &fd, why);

    *upto = trash->last;
    if (rc || fd < 0)
        return rc;
    if (trash->last >= trash->first + STEP_FILES)
        *upto = trash->first + STEP_FILES - 1;
    for (uint64_t i = trash->first; !rc && i <= *upto; i++)
        rc = unlink_list(fd, i, why);
    if (!rc)
        rc = file_sync_dir(fd, why);
    close(fd);
    return rc;
}

/* All else that is in a set's folder: the bytes of its resources, and builds
 * that a crash has cut off, which have no row. Other trash of that name may
 * have lists that are due later; no reader can reach its other files any more.
 */
static enum status
unlink_rest(const char *path, struct problem *why)
{
    const struct dirent *entry;
    size_t n_files = STEP_REST;
    int fd;
    DIR *dir;
    enum status rc = open_dir(path, &fd, why);

    if (rc || fd < 0)
        return rc;
    dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return problem_memory(why);
    }
    while (!rc && (entry = readdir(dir))) {
        unsigned char type = file_type(fd, entry);

        if (type == DT_REG)
            rc = unlink_name(fd, entry->d_name, why);
        else if (type == DT_DIR && entry->d_name[0] != '.' &&
                 strcmp(entry->d_name, LOG_CHANGES) != 0)
            rc = file_clear(fd, entry->d_name, &n_files, why);
    }
    if (!rc)
        rc = file_sync_dir(fd, why);
    closedir(dir);
    return rc;
}

enum status
trash_files_unlink(const char *dir, const struct engine_trash *trash,
                   bool is_alone, uint64_t *upto, struct problem *why)
{
    char path[4096 + SET_NAME_MAX + 32];
    int n =
        snprintf(path, sizeof(path), "%s/sets/%s/changes", dir, trash->name);
    enum status rc = unlink_lists(path, trash, upto, why);

    if (rc || *upto != trash->last)
        return rc;
    /* Removes the folder if it is empty; a set that was made again has files in
     * it. */
    rmdir(path);
    path[n - (int)sizeof("changes")] = '\0';
    if (is_alone)
        rc = unlink_rest(path, why);
    if (!rc)
        rmdir(path);
    return rc;
}

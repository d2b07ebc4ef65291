#include "broker/backup/new_data.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/store/store.h"

/* True for what an empty directory may have. */
static bool
is_none(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") ||
           !strcmp(name, "lost+found");
}

static enum status
check_empty(const char *data, struct problem *why)
{
    const struct dirent *entry;
    enum status rc = STATUS_OK;
    DIR *dir = opendir(data);

    if (!dir)
        return problem_errno(why, "cannot open", data);
    while (!rc && (entry = readdir(dir)))
        if (!is_none(entry->d_name))
            rc = problem(why, STATUS_INVALID, "%s is not empty: it has %s",
                         data, problem_quote(slice_of(entry->d_name)).text);
    closedir(dir);
    return rc;
}

enum status
new_data_mark(int dir_fd, struct problem *why)
{
    struct file_new file;
    enum status rc = file_begin(&file, dir_fd, STORE_RESTORING, why);

    if (!rc)
        rc = file_finish(&file, why);
    return rc ? rc : file_sync_dir(dir_fd, why);
}

enum status
new_data_begin(struct new_data *data, const char *path, struct problem *why)
{
    enum status rc = file_make_dirs(path, why);

    *data = (struct new_data){.path = path, .fd = -1, .lock = -1};
    if (!rc)
        rc = check_empty(path, why);
    if (!rc)
        rc = file_lock(path, &data->lock, why);
    if (rc)
        return rc;
    data->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data->fd < 0)
        return problem_errno(why, "cannot open", path);
    /* Its mode decides those of the files in it (sets/data_directory.h). */
    if (fchmod(data->fd, S_IRWXU))
        return problem_errno(why, "cannot set the mode of", path);
    return new_data_mark(data->fd, why);
}

enum status
new_data_end(struct new_data *data, struct problem *why)
{
    if (syncfs(data->fd))
        return problem_errno(why, "cannot sync", data->path);
    if (unlinkat(data->fd, STORE_RESTORING, 0))
        return problem_errno(why, "cannot remove " STORE_RESTORING " in",
                             data->path);
    return file_sync_dir(data->fd, why);
}

/* False: something is left. */
static bool
remove_name(int dir_fd, const char *name)
{
    size_t n_files = SIZE_MAX;

    return !unlinkat(dir_fd, name, 0) ||
           (errno == EISDIR && !file_clear(dir_fd, name, &n_files, NULL));
}

/* Deletes everything that was restored; the mark last, and only if all else is
 * gone. */
void
new_data_undo(struct new_data *data)
{
    const struct dirent *entry;
    DIR *dir = data->fd < 0 ? NULL : opendir(data->path);
    bool is_gone = dir != NULL;

    while (dir && (entry = readdir(dir)))
        if (!is_none(entry->d_name) &&
            strcmp(entry->d_name, STORE_RESTORING) != 0 &&
            strcmp(entry->d_name, "lock") != 0)
            is_gone &= remove_name(data->fd, entry->d_name);
    if (dir)
        closedir(dir);
    if (!is_gone)
        return;
    unlinkat(data->fd, STORE_RESTORING, 0);
    unlinkat(data->fd, "lock", 0);
    rmdir(data->path);
}

void
new_data_close(struct new_data *data)
{
    file_close(&data->fd);
    file_unlock(data->lock);
    data->lock = -1;
}

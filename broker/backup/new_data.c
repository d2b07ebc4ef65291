#include "broker/backup/new_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/log/log.h"
#include "broker/store/store.h"

enum status
new_data_begin(struct new_data *data, const char *path, struct problem *why)
{
    const struct dirent *entry;
    DIR *dir;
    enum status rc = file_make_dirs(path, why);

    *data = (struct new_data){.path = path, .fd = -1, .lock = -1};
    if (rc)
        return rc;
    dir = file_open_dir(AT_FDCWD, path, 0);
    if (!dir)
        return problem_errno(why, "cannot open", path);
    while (!rc && (entry = file_next(dir)))
        if (strcmp(entry->d_name, "lost+found") != 0)
            rc = problem(why, STATUS_INVALID, "%s is not empty: it has %s",
                         path, problem_quote(slice_of(entry->d_name)).text);
    closedir(dir);
    if (!rc)
        rc = file_lock(path, &data->lock, why);
    if (!rc)
        rc = file_open_folder(AT_FDCWD, path, &data->fd, why);
    if (rc)
        return rc;
    /* Its mode decides those of the files in it (sets/data_directory.h). */
    if (fchmod(data->fd, S_IRWXU))
        return problem_errno(why, "cannot set the mode of", path);
    return file_store(data->fd, STORE_RESTORING, "", why);
}

enum status
new_data_end(struct new_data *data, struct problem *why)
{
    enum status rc = data->begins_epochs
                         ? file_store(data->fd, LOG_NEW_EPOCHS, "", why)
                         : STATUS_OK;

    if (rc)
        return rc;
    if (syncfs(data->fd))
        return problem_errno(why, "cannot sync", data->path);
    if (unlinkat(data->fd, STORE_RESTORING, 0))
        return problem_errno(why, "cannot remove " STORE_RESTORING " in",
                             data->path);
    return file_sync_dir(data->fd, why);
}

void
new_data_close(struct new_data *data, enum status rc)
{
    if (rc) {
        /* Deletes everything that was restored; the mark last, and only if all
         * else is gone. */
        DIR *dir = data->fd < 0 ? NULL : file_open_dir(data->fd, ".", 0);
        const struct dirent *entry;
        bool is_gone = dir != NULL;

        while ((entry = file_next(dir))) {
            const char *name = entry->d_name;

            if (strcmp(name, "lost+found") && strcmp(name, STORE_RESTORING) &&
                strcmp(name, "lock") && unlinkat(data->fd, name, 0) &&
                (errno != EISDIR || file_clear(data->fd, name, NULL, NULL)))
                is_gone = false;
        }
        if (dir)
            closedir(dir);
        if (is_gone) {
            unlinkat(data->fd, STORE_RESTORING, 0);
            unlinkat(data->fd, "lock", 0);
            rmdir(data->path);
        }
    }
    file_close(&data->fd);
    file_close(&data->lock);
}

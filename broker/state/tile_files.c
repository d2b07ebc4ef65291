#include "broker/state/tile_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

struct tile_name {
    char text[sizeof(LOG_TILES) + TILE_PATH_SIZE];
};

static struct tile_name
name_of(unsigned level, uint64_t number, unsigned width)
{
    struct tile_name name = {LOG_TILES "/"};

    tree_tile_write(name.text + sizeof(LOG_TILES), level, number, width);
    return name;
}

static struct file_path
path_of(const char *dir, unsigned level, uint64_t number, unsigned width)
{
    return file_path("%s/%s", dir, name_of(level, number, width).text);
}

/* Makes the folders of a tile. Users who may read lists may read tiles, too. */
static enum status
make_folders(const char *dir, struct tile_name name, struct problem *why)
{
    char *at = name.text, *slash;
    int fd, above;
    enum status rc = file_open_folder(AT_FDCWD, dir, &fd, why);

    for (; !rc && (slash = strchr(at, '/')); at = slash + 1) {
        bool is_new;

        *slash = '\0';
        above = fd;
        fd = -1;
        is_new = faccessat(above, at, F_OK, 0) != 0;
        if (is_new)
            rc = file_make_dir(above, at, why);
        if (!rc)
            rc = file_open_folder(above, at, &fd, why);
        if (!rc && is_new && at == name.text)
            rc = file_let_passers_read(fd, why);
        close(above);
    }
    file_close(&fd);
    return rc;
}

enum status
tile_file_write(const char *dir, unsigned level, uint64_t number,
                unsigned width, const struct digest *hashes,
                struct problem *why)
{
    struct tile_name name = name_of(level, number, width);
    struct file_path folder = file_path("%s/%s", dir, name.text);
    char *file_name = strrchr(folder.text, '/');
    struct file_new file = {.fd = -1};
    enum status rc = STATUS_OK;
    int fd;

    *file_name++ = '\0';
    if (access(folder.text, F_OK))
        rc = make_folders(dir, name, why);
    if (!rc)
        rc = file_open_folder(AT_FDCWD, folder.text, &fd, why);
    if (rc)
        return rc;
    rc = file_begin(&file, fd, file_name, why);
    if (!rc)
        rc = file_append(
            &file,
            (struct slice){(const char *)hashes, (size_t)width * DIGEST_SIZE},
            why);
    if (!rc)
        rc = file_give_name(&file, why);
    file_abandon(&file); /* if it was begun, and did not end */
    close(fd);
    return rc;
}

enum status
tile_files_sync(const char *dir, struct problem *why)
{
    int fd;
    enum status rc = file_open_folder(AT_FDCWD, dir, &fd, why);

    if (!rc && syncfs(fd))
        rc = problem_errno(why, "cannot sync", dir);
    file_close(&fd);
    return rc;
}

bool
tile_file_read(const char *dir, unsigned level, uint64_t number, unsigned width,
               struct digest *hashes)
{
    struct file_path path = path_of(dir, level, number, width);
    ssize_t size = (ssize_t)((size_t)width * DIGEST_SIZE);
    struct stat st;

    return hashes ? file_read(AT_FDCWD, path.text, hashes, (size_t)size) == size
                  : !stat(path.text, &st) && st.st_size == size;
}

void
tile_file_remove(const char *dir, unsigned level, uint64_t number,
                 unsigned width)
{
    struct file_path path = path_of(dir, level, number, width);

    unlink(path.text);
    if (width < TILE_WIDTH) {
        *strrchr(path.text, '/') = '\0';
        rmdir(path.text); /* if it is empty */
    }
}

enum status
tile_files_clear(const char *dir, struct problem *why)
{
    return file_clear(AT_FDCWD, file_path("%s/" LOG_TILES, dir).text, NULL,
                      why);
}

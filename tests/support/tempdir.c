#include "tests/support/tempdir.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

/* Folders that nftw keeps open at a time. */
#define OPEN_MAX_DIRS 16

void
tempdir_open(struct tempdir *dir)
{
    const char *above = getenv("TMPDIR");

    snprintf(dir->path, sizeof(dir->path), "%s/tidings-test-XXXXXX",
             above ? above : "/tmp");
    dir->fd = -1;
    if (!mkdtemp(dir->path))
        fail_msg("cannot make the directory %s", dir->path);
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir->fd >= 0);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void
tempdir_close(struct tempdir *dir)
{
    if (dir->fd < 0)
        return;
    close(dir->fd);
    dir->fd = -1;
    if (nftw(dir->path, remove_one, OPEN_MAX_DIRS, FTW_DEPTH | FTW_PHYS))
        print_error("cannot remove %s\n", dir->path);
}

int
tempdir_setup(void **state)
{
    struct tempdir *dir = malloc(sizeof(*dir));

    if (!dir)
        return -1;
    tempdir_open(dir);
    *state = dir;
    return 0;
}

int
tempdir_teardown(void **state)
{
    tempdir_close(*state);
    free(*state);
    return 0;
}

const char *
tempdir_path(void **state)
{
    return ((struct tempdir *)*state)->path;
}

int
tempdir_fd(void **state)
{
    return ((struct tempdir *)*state)->fd;
}

void
tempdir_write(int dir_fd, const char *name, const char *text)
{
    size_t size = strlen(text);
    int fd =
        openat(dir_fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

void
tempdir_assert_no_file(int dir_fd, const char *name, const char *file, int line)
{
    if (faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
        return;
    print_error("%s is there\n", name);
    _fail(file, line);
}

void
tempdir_assert_file(int dir_fd, const char *name, const char *text,
                    const char *file, int line)
{
    char found[4096];
    ssize_t size = -1;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        size = read(fd, found, sizeof(found) - 1);
        close(fd);
    }
    if (size < 0) {
        print_error("%s cannot be read\n", name);
        _fail(file, line);
    }
    found[size] = '\0';
    if (strcmp(found, text) != 0) {
        print_error("%s holds \"%s\", not \"%s\"\n", name, found, text);
        _fail(file, line);
    }
}

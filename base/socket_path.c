#include "base/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Opens the directory that the first `size` bytes of `path` name; 0: the
 * current one. */
static int
open_directory(const char *path, size_t size)
{
    char *dir =
        size ? slice_dup((struct slice){path, size}) : slice_dup(slice_of("."));
    int fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int error = errno;

    free(dir);
    errno = error;
    return fd;
}

enum status
socket_path_open(struct socket_path *p, const char *path, struct problem *why)
{
    char *to = p->address.sun_path;
    size_t size = sizeof(p->address.sun_path);
    const char *slash = strrchr(path, '/');

    memset(p, 0, sizeof(*p));
    p->address.sun_family = AF_UNIX;
    p->name = slash ? slash + 1 : path;
    p->dir_fd = open_directory(path, (size_t)(p->name - path));
    if (p->dir_fd < 0)
        return problem_errno(why, "cannot open the directory of", path);
    if ((size_t)snprintf(to, size, "%s", path) >= size &&
        (size_t)snprintf(to, size, "/proc/self/fd/%d/%s", p->dir_fd, p->name) >=
            size)
        errno = ENAMETOOLONG;
    else if (!*p->name)
        errno = EISDIR;
    else
        return STATUS_OK;
    socket_path_close(p);
    return problem_errno(why, "there can be no socket", path);
}

void
socket_path_close(struct socket_path *p)
{
    file_close(&p->dir_fd);
}

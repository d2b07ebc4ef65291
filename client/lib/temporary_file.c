#include "client/lib/temporary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *
temporary_directory(void)
{
    const char *const paths[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"),
                                 "/var/tmp", "/usr/tmp", "/tmp"};
    struct stat is;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i] && !stat(paths[i], &is) && S_ISDIR(is.st_mode) &&
            !access(paths[i], W_OK | X_OK))
            return paths[i];
    return ".";
}

int
temporary_file_open(struct problem *why)
{
    const char *dir = temporary_directory();
    char path[4096];
    int fd = -1;

    errno = ENAMETOOLONG;
    if (snprintf(path, sizeof(path), "%s/tidings-XXXXXX", dir) <
        (int)sizeof(path))
        fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    else
        problem_errno(why, "cannot make a temporary file in", dir);
    return fd;
}

/*
 * place.c - a position kept in a file.
 *
 * The folder is not synced: after a power cut the old position may be back,
 * which repeats lines and loses none.
 */
#include "client/cli/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"

int
place_read(const char *path, char position[PLACE_MAX])
{
    FILE *f = fopen(path, "r");
    char line[PLACE_MAX + 1] = "";
    size_t size;
    int error;

    if (!f && errno == ENOENT)
        return 0;
    if (!f) {
        say("cannot read %s: %s", path, strerror(errno));
        return -1;
    }
    size = fread(line, 1, PLACE_MAX, f);
    error = ferror(f) ? errno : 0;
    fclose(f);
    if (error) {
        say("cannot read %s: %s", path, strerror(error));
        return -1;
    }
    while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
        line[--size] = '\0';
    if (!size || strspn(line, "0123456789abcdef-") != size) {
        say("%s holds no position", path);
        return -1;
    }
    memcpy(position, line, size + 1);
    return 1;
}

static bool
write_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(fd, text, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        size -= (size_t)n;
    }
    return true;
}

bool
place_write(const char *path, const char *position)
{
    char temp[PATH_MAX];
    char line[PLACE_MAX + 2];
    bool is_good = false;
    int fd = -1;
    int n = snprintf(temp, sizeof(temp), "%s.new", path);
    int size = snprintf(line, sizeof(line), "%s\n", position);

    if (n < 0 || (size_t)n >= sizeof(temp) || (size_t)size >= sizeof(line)) {
        errno = ENAMETOOLONG;
        goto out;
    }
    fd = open(temp, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        goto out;

    /* Bytes before name, or a crash may leave a name without bytes. */
    if (!write_all(fd, line, (size_t)size) || fsync(fd))
        goto out;
    is_good = !rename(temp, path);

out:
    if (!is_good)
        say("cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return is_good;
}

#include "broker/sets/public_url.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/diag.h"

#define NAME "public-url"

/* A public URL has 511 bytes at most. */
#define LINE_MAX_SIZE 1024

/* Reads the file; "" if it does not exist. */
static enum status
read_line(int dir_fd, char line[LINE_MAX_SIZE], struct problem *why)
{
    int fd = openat(dir_fd, NAME, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    line[0] = '\0';
    if (fd < 0 && errno == ENOENT)
        return STATUS_OK;
    n = fd < 0 ? -1 : read(fd, line, LINE_MAX_SIZE - 1);
    if (n < 0)
        problem_errno(why, "cannot read", NAME);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return STATUS_IO;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return STATUS_OK;
}

static enum status
write_line(int dir_fd, const char *url, struct problem *why)
{
    struct file_new file;
    enum status rc = file_begin(&file, dir_fd, NAME, why);

    if (rc)
        return rc;
    rc = file_append(&file, slice_of(url), why);
    if (!rc)
        rc = file_append(&file, SLICE("\n"), why);
    if (rc) {
        file_abandon(&file);
        return rc;
    }
    rc = file_finish(&file, why);
    return rc ? rc : file_sync_dir(dir_fd, why);
}

void
public_url_remember(const char *dir, const char *url)
{
    struct problem why = {""};
    char last[LINE_MAX_SIZE];
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status rc = STATUS_IO;

    if (dir_fd < 0) {
        problem_errno(&why, "cannot open", dir);
        goto out;
    }
    rc = read_line(dir_fd, last, &why);
    if (rc || !strcmp(last, url))
        goto out;
    if (last[0])
        diag(DIAG_WARNING, "sets",
             "the public URL was %s and is %s now: what was closed under the "
             "old one names it for ever, and is served under the new one",
             last, url);
    rc = write_line(dir_fd, url, &why);

out:
    /* Not worth a failure: at worst the next start warns again. */
    if (rc)
        diag(DIAG_WARNING, "sets", "the public URL is not remembered: %s",
             why.text);
    if (dir_fd >= 0)
        close(dir_fd);
}

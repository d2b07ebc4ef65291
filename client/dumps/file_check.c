#include "client/dumps/file_check.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static enum status
cannot_read(const char *name, struct problem *why)
{
    problem_errno(why, "cannot read", name);
    return STATUS_IO;
}

/* Feeds the bytes of `fd`, at most `limit`. */
static enum status
read_all(struct digest_check *d, int fd, const char *name, uint64_t limit,
         struct problem *why)
{
    char bytes[65536];
    enum status rc = STATUS_OK;

    while (limit > 0 && !rc) {
        size_t want = limit < sizeof(bytes) ? (size_t)limit : sizeof(bytes);
        ssize_t n = read(fd, bytes, want);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot_read(name, why);
        if (n == 0)
            return limit == UINT64_MAX
                       ? STATUS_OK
                       : problem(why, STATUS_IO, "%s is too short", name);
        rc = digest_check_add(d, (struct slice){bytes, (size_t)n}, why);
        if (limit != UINT64_MAX)
            limit -= (uint64_t)n;
    }
    return rc;
}

enum status
digests_file(struct digest_check *digests, int dir_fd, const char *name,
             uint64_t limit, struct problem *why)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    enum status rc;

    if (fd < 0)
        return cannot_read(name, why);
    rc = digest_check_reset(digests);
    if (!rc)
        rc = read_all(digests, fd, name, limit, why);
    close(fd);
    if (!rc && limit == UINT64_MAX)
        rc = digest_check_end(digests, why);
    return rc;
}

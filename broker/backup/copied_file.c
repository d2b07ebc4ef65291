#include "broker/backup/copied_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PIECE_BYTES ((size_t)256 << 10)

enum status
copied_file_make_dirs(const char *base, const char *path, struct problem *why)
{
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof(dir), "%s/%s", base, path);

    if (n < 0 || (size_t)n >= sizeof(dir)) {
        errno = ENAMETOOLONG;
        return problem_errno(why, "cannot write", path);
    }
    for (char *at = dir + strlen(base) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (mkdir(dir, S_IRWXU) && errno != EEXIST)
            return problem_errno(why, "cannot create the directory", dir);
        *at = '/';
    }
    return STATUS_OK;
}

/* Reading */

static enum status
fail_reading(struct problem *why)
{
    return problem(why, STATUS_GONE, "%s", strerror(errno));
}

/* Reads all bytes of `from`, and writes them to `to` unless that is -1. Sets
 * their digest and size. */
static enum status
digest_bytes(int from, int to, const char *name, struct digest *digest,
             uint64_t *size, struct problem *why)
{
    struct digest_check *digests =
        digest_check_new(SLICE(""), LENGTH_NONE, true);
    char *piece = memory_room(PIECE_BYTES);
    enum status rc = piece ? STATUS_OK : problem_memory(why);

    while (!rc) {
        ssize_t n = read(from, piece, PIECE_BYTES);
        struct slice bytes = {piece, n > 0 ? (size_t)n : 0};

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = fail_reading(why);
        if (n <= 0)
            break;
        rc = digest_check_add(digests, bytes, why);
        if (!rc && to >= 0 && file_write(to, bytes))
            rc = problem_errno(why, "cannot write", name);
    }
    free(piece);
    if (!rc)
        rc = digest_check_end(digests, why);
    if (!rc) {
        digest_check_sha256(digests, digest);
        *size = digest_check_size(digests);
    }
    digest_check_free(digests);
    return rc;
}

enum status
copied_file_digest(const char *path, struct digest *digest, uint64_t *size,
                   struct problem *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum status rc;

    if (fd < 0)
        return problem_errno(why, "cannot open", path);
    rc = digest_bytes(fd, -1, path, digest, size, why);
    if (rc == STATUS_GONE)
        rc = problem_prefix(why, STATUS_IO, "cannot read %s: ", path);
    close(fd);
    return rc;
}

/* Copying */

/* True if `name` is a new name of the open file now. */
static bool
link_file(int from, const char *path, const char *name)
{
    struct stat a, b;

    if (linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
        return false;
    if (!fstat(from, &a) && !stat(name, &b) && a.st_ino == b.st_ino &&
        a.st_dev == b.st_dev)
        return true;
    unlink(name);
    return false;
}

enum status
copied_file_make(const char *from, const char *name, bool may_link,
                 struct digest *digest, uint64_t *size, struct problem *why)
{
    static const int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
    int fd = open(from, O_RDONLY | O_CLOEXEC), to;
    bool is_shared, is_link = false; /* it has the blocks, or is the file */
    struct stat st;
    enum status rc;

    if (fd < 0)
        return fail_reading(why);
    if (!fstat(fd, &st) && !S_ISREG(st.st_mode)) {
        close(fd);
        return problem(why, STATUS_GONE, "it is no file");
    }
    to = open(name, flags, 0600);
    is_shared = to >= 0 && !ioctl(to, FICLONE, fd);
    if (to >= 0 && may_link && !is_shared) {
        file_close(&to);
        unlink(name);
        is_link = link_file(fd, from, name);
        if (!is_link)
            to = open(name, flags, 0600);
    }
    rc = to < 0 && !is_link
             ? problem_errno(why, "cannot write", name)
             : digest_bytes(fd, is_shared ? -1 : to, name, digest, size, why);
    if (!rc && !is_link &&
        (fstat(fd, &st) ||
         futimens(to, (struct timespec[2]){st.st_mtim, st.st_mtim})))
        rc = problem_errno(why, "cannot set the time of", name);
    if (to >= 0 && close(to) && !rc)
        rc = problem_errno(why, "cannot write", name);
    if (rc)
        unlink(name);
    close(fd);
    return rc;
}

bool
copied_file_is_same(const char *from, const char *to, uint64_t *size)
{
    struct stat a, b;

    if (stat(from, &a) || stat(to, &b) || !S_ISREG(b.st_mode) ||
        a.st_size != b.st_size || a.st_mtim.tv_sec != b.st_mtim.tv_sec ||
        a.st_mtim.tv_nsec != b.st_mtim.tv_nsec)
        return false;
    *size = (uint64_t)b.st_size;
    return true;
}

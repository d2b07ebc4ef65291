/*
 * disk.c - the disk of a simulated world, and its writes that are not durable
 * yet.
 *
 * Files below the folder WORLD_DISK are real ones, so that all calls of the C
 * library work. Each change is also noted in the journal WORLD_JOURNAL, with what
 * was there before, and so is each sync: after a loss of power the operator takes
 * back what no sync has made durable, or a part of it (disk.py). A file that loses
 * its last name is kept below .lost/ for that.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/sim/inside.h"

static char root[PATH_MAX];
static size_t root_size;
static int journal = -1;
static int lost = -1; /* the folder of what was unlinked */

/* Called by the first call below; the process has joined by then. */
static bool
has_disk(void)
{
    const char *path = getenv("WORLD_DISK"), *log = getenv("WORLD_JOURNAL");
    char text[PATH_MAX + 8];

    if (!is_inside())
        return false;
    if (journal < 0 && path && log) {
        root_size = strlen(path);
        memcpy(root, path, root_size + 1);
        journal = (int)syscall(SYS_openat, AT_FDCWD, log,
                               O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        snprintf(text, sizeof(text), "%s/.lost", root);
        lost = (int)syscall(SYS_openat, AT_FDCWD, text,
                            O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (journal < 0 || lost < 0)
            abort();
    }
    return journal >= 0;
}

/* Writes the full path; false: it is not of the disk. */
static bool
find_path(char to[PATH_MAX], int folder, const char *path)
{
    char link[64];
    ssize_t n = 0;

    if (!has_disk())
        return false;
    if (path[0] != '/') {
        snprintf(link, sizeof(link),
                 folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
                 folder);
        n = readlink(link, to, PATH_MAX - NAME_MAX - 2);
        if (n < 0)
            return false;
        to[n++] = '/';
    }
    snprintf(to + n, PATH_MAX - (size_t)n, "%s", path);
    return strncmp(to, root, root_size) == 0 && to[root_size] == '/';
}

static void
append(const void *bytes, size_t size)
{
    if (size && syscall(SYS_write, journal, bytes, size) != (ssize_t)size)
        abort();
}

static void
note_record(struct disk_record record, const char *path, const char *other,
            const void *old, const void *new)
{
    record.n_path = path ? (uint32_t)strlen(path) : 0;
    record.n_other = other ? (uint32_t)strlen(other) : 0;
    append(&record, sizeof(record));
    append(path, record.n_path);
    append(other, record.n_other);
    append(old, record.n_old);
    append(new, record.n_new);
}

/* A call of the disk may fail by the operator's will. */
static bool
is_refused(const char *what, int64_t number, bool needs_space)
{
    step(what, number);
    if (needs_space && world->processes[this_process()].is_full) {
        errno = ENOSPC;
        return true;
    }
    return false;
}

static struct fd *
file_of(int fd)
{
    struct fd *f = has_disk() ? fd_of(fd) : NULL;

    return f && (f->kind == FD_FILE || f->kind == FD_FOLDER) ? f : NULL;
}

/* Changes of files */

static int64_t
size_of(int fd)
{
    struct stat st;

    return syscall(SYS_fstat, fd, &st) ? 0 : st.st_size;
}

/* Reads what a file has, also one that was opened for writing only. */
static size_t
read_old(int fd, char *to, size_t size, int64_t at)
{
    char path[64];
    int own;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    n = syscall(SYS_pread64, own, to, size, at);
    syscall(SYS_close, own);
    if (n != (ssize_t)size)
        abort();
    return size;
}

/* Notes that `new` comes where `old` is now. NULL: zeros. */
static void
note_write(int fd, const void *new, size_t size, int64_t at)
{
    int64_t old_size = size_of(fd);
    size_t n_old = at >= old_size                   ? 0
                   : (size_t)(old_size - at) < size ? (size_t)(old_size - at)
                                                    : size;
    char *old = malloc(n_old + 1);

    if (n_old)
        read_old(fd, old, n_old, at);
    note_record((struct disk_record){.op = DISK_WRITE,
                                     .n_old = (uint32_t)n_old,
                                     .n_new = (uint32_t)size,
                                     .ino = fd_of(fd)->ino,
                                     .at = (uint64_t)at,
                                     .old_size = (uint64_t)old_size},
                NULL, NULL, old, new);
    free(old);
}

bool
disk_write(int fd, const void *bytes, size_t size, int64_t at, ssize_t *n)
{
    struct fd *f = file_of(fd);
    bool moves = at < 0;

    if (!f)
        return false;
    *n = -1;
    if (moves)
        at = f->is_append ? size_of(fd) : syscall(SYS_lseek, fd, 0, SEEK_CUR);
    if (is_refused("write file", at, at + (int64_t)size > size_of(fd)))
        return true;
    note_write(fd, bytes, size, at);
    *n = syscall(SYS_pwrite64, fd, bytes, size, at);
    if (moves)
        syscall(SYS_lseek, fd, at + *n, SEEK_SET);
    return true;
}

EXPORT ssize_t
pwrite64(int fd, const void *bytes, size_t size, off_t at)
{
    ssize_t n;

    return disk_write(fd, bytes, size, at, &n)
               ? n
               : syscall(SYS_pwrite64, fd, bytes, size, at);
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
    __attribute__((alias("pwrite64")));

EXPORT ssize_t
pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    ssize_t sum = 0;
    REAL(pwritev);

    if (!file_of(fd))
        return real(fd, parts, n, at);
    for (int i = 0; i < n; i++) {
        ssize_t one =
            pwrite64(fd, parts[i].iov_base, parts[i].iov_len, at + sum);

        if (one < 0)
            return sum ? sum : -1;
        sum += one;
        if ((size_t)one < parts[i].iov_len)
            break;
    }
    return sum;
}

/* Notes that a file gets `size` bytes. */
static void
note_size(int fd, int64_t size)
{
    int64_t old_size = size_of(fd);
    size_t n_old = size < old_size ? (size_t)(old_size - size) : 0;
    char *old = malloc(n_old + 1);

    if (n_old)
        read_old(fd, old, n_old, size);
    note_record((struct disk_record){.op = DISK_SIZE,
                                     .n_old = (uint32_t)n_old,
                                     .ino = fd_of(fd)->ino,
                                     .at = (uint64_t)size,
                                     .old_size = (uint64_t)old_size},
                NULL, NULL, old, NULL);
    free(old);
}

EXPORT int
ftruncate64(int fd, off_t size)
{
    if (file_of(fd)) {
        if (is_refused("set size", size, size > size_of(fd)))
            return -1;
        note_size(fd, size);
    }
    return (int)syscall(SYS_ftruncate, fd, size);
}

EXPORT int ftruncate(int fd, off_t size) __attribute__((alias("ftruncate64")));

EXPORT int
fallocate(int fd, int mode, off_t at, off_t size)
{
    if (file_of(fd)) {
        if (is_refused("allocate", at + size, true))
            return -1;
        if (!mode && at + size > size_of(fd))
            note_size(fd, at + size);
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, size);
}

static int
sync_file(int fd, const char *what)
{
    struct world_process *p = &world->processes[this_process()];
    struct fd *f = file_of(fd);

    if (!f)
        return 0;
    step(what, fd);
    if (p->failing && !--p->failing) {
        errno = EIO;
        return -1;
    }
    note_record((struct disk_record){.op = DISK_SYNC, .ino = f->ino}, NULL,
                NULL, NULL, NULL);
    return 0;
}

EXPORT int
fsync(int fd)
{
    return is_inside() ? sync_file(fd, "fsync") : (int)syscall(SYS_fsync, fd);
}

EXPORT int
fdatasync(int fd)
{
    return is_inside() ? sync_file(fd, "fdatasync")
                       : (int)syscall(SYS_fdatasync, fd);
}

EXPORT int
syncfs(int fd)
{
    if (!has_disk())
        return (int)syscall(SYS_syncfs, fd);
    step("syncfs", fd);
    note_record((struct disk_record){.op = DISK_SYNC_ALL}, NULL, NULL, NULL,
                NULL);
    return 0;
}

/* Names */

/* Keeps the file that loses its name `path`: returns the number below .lost/; 0:
 * there is none. */
static uint32_t
keep_file(const char *path)
{
    static uint32_t n; /* of this process */
    char name[32];
    uint32_t kept = this_process() * 100000 + ++n;

    snprintf(name, sizeof(name), "%u", kept);
    return syscall(SYS_linkat, AT_FDCWD, path, lost, name, 0) ? 0 : kept;
}

static int
open_file(int folder, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    bool is_ours = find_path(full, folder, path);
    bool is_new = is_ours && flags & O_CREAT && access(full, F_OK);
    struct fd *f;
    struct stat st;
    int fd;

    if (is_ours &&
        is_refused(is_new ? "create" : "open", flags & O_ACCMODE, is_new))
        return -1;
    if (is_ours && flags & O_TRUNC && !is_new) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, full, O_RDWR, 0);
        if (fd >= 0 && fd < FDS && !syscall(SYS_fstat, fd, &st)) {
            fd_of(fd)->ino = st.st_ino;
            note_size(fd, 0);
            fd_of(fd)->ino = 0;
        }
        syscall(SYS_close, fd);
    }
    fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    f = is_inside() ? fd_of(fd) : NULL;
    if (!f)
        return fd;
    *f = (struct fd){.kind = FD_OTHER};
    if (strcmp(path, "/dev/urandom") == 0)
        f->kind = FD_RANDOM;
    if (!is_ours || flags & O_PATH || syscall(SYS_fstat, fd, &st))
        return fd;
    *f = (struct fd){.kind = S_ISDIR(st.st_mode) ? FD_FOLDER : FD_FILE,
                     .ino = st.st_ino,
                     .is_append = flags & O_APPEND};
    if (is_new)
        note_record((struct disk_record){.op = DISK_CREATE, .ino = st.st_ino},
                    full, NULL, NULL, NULL);
    return fd;
}

#define OPEN(folder, path)                              \
    mode_t mode = 0;                                    \
    va_list args;                                       \
                                                        \
    va_start(args, flags);                              \
    if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) \
        mode = va_arg(args, mode_t);                    \
    va_end(args);                                       \
    return open_file(folder, path, flags | O_LARGEFILE, mode)

EXPORT int
open64(const char *path, int flags, ...)
{
    OPEN(AT_FDCWD, path);
}

EXPORT int
openat64(int folder, const char *path, int flags, ...)
{
    OPEN(folder, path);
}

EXPORT int open(const char *path, int flags, ...)
    __attribute__((alias("open64")));
EXPORT int openat(int folder, const char *path, int flags, ...)
    __attribute__((alias("openat64")));

EXPORT int __open_2(const char *path, int flags);
EXPORT int __openat_2(int folder, const char *path, int flags);

int
__open_2(const char *path, int flags)
{
    return open_file(AT_FDCWD, path, flags, 0);
}

int
__openat_2(int folder, const char *path, int flags)
{
    return open_file(folder, path, flags, 0);
}

EXPORT int
mkdirat(int folder, const char *path, mode_t mode)
{
    char full[PATH_MAX];
    bool is_ours = find_path(full, folder, path);
    int rc;

    if (is_ours && is_refused("mkdir", 0, true))
        return -1;
    rc = (int)syscall(SYS_mkdirat, folder, path, mode);
    if (is_ours && !rc)
        note_record((struct disk_record){.op = DISK_MKDIR}, full, NULL, NULL,
                    NULL);
    return rc;
}

EXPORT int
mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

EXPORT int
linkat(int from_folder, const char *from, int folder, const char *path,
       int flags)
{
    char full[PATH_MAX];
    bool is_ours = find_path(full, folder, path);
    struct stat st;
    int rc;

    if (is_ours && is_refused("link", 0, true))
        return -1;
    rc = (int)syscall(SYS_linkat, from_folder, from, folder, path, flags);
    if (is_ours && !rc && !stat(full, &st))
        note_record((struct disk_record){.op = DISK_LINK, .ino = st.st_ino},
                    full, NULL, NULL, NULL);
    return rc;
}

EXPORT int
link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int
renameat(int from_folder, const char *from, int folder, const char *path)
{
    char old[PATH_MAX], full[PATH_MAX];
    bool is_ours =
        find_path(old, from_folder, from) && find_path(full, folder, path);
    uint32_t kept = 0;
    int rc;

    if (is_ours) {
        step("rename", 0);
        kept = keep_file(full);
    }
    rc = (int)syscall(SYS_renameat, from_folder, from, folder, path);
    if (is_ours && !rc)
        note_record((struct disk_record){.op = DISK_RENAME, .kept = kept}, old,
                    full, NULL, NULL);
    return rc;
}

EXPORT int
rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

EXPORT int
unlinkat(int folder, const char *path, int flags)
{
    char full[PATH_MAX];
    bool is_ours = find_path(full, folder, path);
    uint32_t kept = 0;
    int rc;

    if (is_ours) {
        step("unlink", 0);
        kept = flags & AT_REMOVEDIR ? 0 : keep_file(full);
    }
    rc = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (is_ours && !rc)
        note_record((struct disk_record){.op = flags & AT_REMOVEDIR
                                                   ? DISK_RMDIR
                                                   : DISK_UNLINK,
                                         .kept = kept},
                    full, NULL, NULL, NULL);
    return rc;
}

EXPORT int
unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int
rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct file_path
file_path(const char *format, ...)
{
    struct file_path path;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(path.text, sizeof(path.text), format, arguments);
    va_end(arguments);
    return path;
}

void
file_close(int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved;
}

int
file_write(int fd, struct slice bytes)
{
    while (bytes.size > 0) {
        ssize_t n = write(fd, bytes.data, bytes.size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes.data += n;
        bytes.size -= (size_t)n;
    }
    return 0;
}

bool
file_read_at(int fd, void *to, size_t size, uint64_t at)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = pread(fd, (char *)to + got, size - got, (off_t)(at + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* Permissions */

#define MAY_PASS (S_IXGRP | S_IXOTH) /* a directory's, for other users */
#define MAY_READ (S_IRGRP | S_IROTH)

/* Adds to the mode of the new `name` the bits of `mask` that the directory
 * above has. Keeps its other bits: the file system may have set S_ISGID. */
static int
inherit_mode(int above_fd, int at_fd, const char *name, mode_t mask)
{
    struct stat above, own;

    if (fstat(above_fd, &above) || fstatat(at_fd, name, &own, 0))
        return -1;
    if ((above.st_mode & mask & ~own.st_mode) == 0)
        return 0;
    return fchmodat(at_fd, name, (own.st_mode & 07777) | (above.st_mode & mask),
                    0);
}

enum status
file_let_passers_read(int dir_fd, struct problem *why)
{
    struct stat st;
    mode_t mode;

    if (fstat(dir_fd, &st))
        return problem_errno(why, "cannot look at", "the directory");
    mode = (st.st_mode & 07777) | (st.st_mode & MAY_PASS) << 2;
    if (mode != (st.st_mode & 07777) && fchmod(dir_fd, mode))
        return problem_errno(why, "cannot set the mode of", "the directory");
    return STATUS_OK;
}

/* Directories */

/* The directory of `path`. */
static void
parent_of(const char *path, char parent[PATH_MAX])
{
    size_t size = strlen(path);
    char *slash;

    while (size > 1 && path[size - 1] == '/')
        size--;
    snprintf(parent, PATH_MAX, "%.*s", (int)size, path);
    slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, PATH_MAX, ".");
    else
        slash[slash == parent] = '\0'; /* "/" is the parent of "/a" */
}

/* fsyncs the directory of `path`; if `path` is new, sets its mode. */
static int
settle_in_parent(const char *path, bool is_new)
{
    char parent[PATH_MAX];
    int fd, rc;

    parent_of(path, parent);
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    rc = is_new ? inherit_mode(fd, AT_FDCWD, path, MAY_PASS) : 0;
    if (!rc)
        rc = fsync(fd);
    file_close(&fd);
    return rc;
}

/* Makes one folder, and syncs its name. It syncs the name of a folder that
 * exists, too, if permitted: a process may have made the folder and died before
 * the sync. */
static int
make_dir(const char *dir)
{
    struct stat st;

    if (mkdir(dir, 0700) == 0)
        return settle_in_parent(dir, true);
    if (errno != EEXIST || stat(dir, &st))
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    (void)settle_in_parent(dir, false);
    return 0;
}

enum status
file_make_dir(int dir_fd, const char *name, struct problem *why)
{
    if (mkdirat(dir_fd, name, 0700) ||
        inherit_mode(dir_fd, dir_fd, name, MAY_PASS | MAY_READ))
        return problem_errno(why, "cannot create the directory", name);
    return STATUS_OK;
}

enum status
file_make_dirs(const char *dir, struct problem *why)
{
    char path[PATH_MAX];
    size_t size = strlen(dir);

    while (size > 1 && dir[size - 1] == '/')
        size--;
    if (size == 0 || size >= sizeof(path)) {
        errno = size == 0 ? ENOENT : ENAMETOOLONG;
        return problem_errno(why, "cannot create the directory", dir);
    }

    /* The path, cut at each of its slashes in turn, then whole. */
    for (size_t i = 1; i <= size; i++) {
        if (i < size && (dir[i] != '/' || dir[i - 1] == '/'))
            continue;
        memcpy(path, dir, i);
        path[i] = '\0';
        if (make_dir(path))
            return problem_errno(why, "cannot create the directory", path);
    }
    return STATUS_OK;
}

/* Tries to make a nameless file, which leaves nothing behind. Some file systems
 * have no such files (NFS): of these only those without any files, such as
 * /proc, are known to refuse. errno has the reason. */
static bool
takes_files(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    struct statvfs fs;

    if (fd >= 0) {
        close(fd);
        return true;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return false;
    if (statvfs(dir, &fs))
        return false;
    errno = EPERM;
    return fs.f_blocks > 0;
}

enum status
file_check_dir(const char *dir, struct problem *why)
{
    char path[PATH_MAX], parent[PATH_MAX];
    struct stat found;

    if (strlen(dir) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return problem_errno(why, "cannot create the directory", dir);
    }
    /* Up to the first existing folder: file_make_dirs would make the others in
     * it. */
    snprintf(path, sizeof(path), "%s", dir);
    while (stat(path, &found)) {
        int error = errno;
        const char *slash = strrchr(path, '/');
        bool is_link = !lstat(path, &found); /* a link that leads nowhere */

        errno = error;
        if (error != ENOENT || is_link)
            return problem_errno(why, "cannot use the directory", path);
        /* The last name: */
        if (strlen(slash ? slash + 1 : path) >
            NAME_MAX) { /* reported only if its folder exists */
            errno = ENAMETOOLONG;
            return problem_errno(why, "cannot create the directory", path);
        }
        parent_of(path, parent);
        memcpy(path, parent, sizeof(path));
    }
    if (!S_ISDIR(found.st_mode))
        errno = ENOTDIR;
    if (!S_ISDIR(found.st_mode) || access(path, R_OK | W_OK | X_OK) ||
        !takes_files(path))
        return problem_errno(why, "cannot use the directory", path);
    return STATUS_OK;
}

DIR *
file_open_dir(int above_fd, const char *name, int flags)
{
    int fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        file_close(&fd);
    return dir;
}

const struct dirent *
file_next(DIR *dir)
{
    const struct dirent *entry;

    if (!dir)
        return NULL;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry &&
             (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
    return entry;
}

unsigned char
file_type(int dir_fd, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
        return DT_UNKNOWN;
    return IFTODT(st.st_mode);
}

enum status
file_clear(int dir_fd, const char *name, size_t *n_files, struct problem *why)
{
    DIR *dir = file_open_dir(dir_fd, name, O_NOFOLLOW);
    const struct dirent *entry;
    enum status rc = STATUS_OK;

    if (!dir)
        return errno == ENOENT ? STATUS_OK
                               : problem_errno(why, "cannot open", name);
    while (!rc && (entry = file_next(dir))) {
        if (file_type(dirfd(dir), entry) == DT_DIR)
            rc = file_clear(dirfd(dir), entry->d_name, n_files, why);
        else if (n_files && *n_files == 0)
            rc = STATUS_AGAIN;
        else if (unlinkat(dirfd(dir), entry->d_name, 0) && errno != ENOENT)
            rc = problem_errno(why, "cannot remove", entry->d_name);
        else if (n_files)
            --*n_files;
    }
    closedir(dir);
    if (!rc && unlinkat(dir_fd, name, AT_REMOVEDIR) && errno != ENOENT)
        rc = problem_errno(why, "cannot remove", name);
    return rc;
}

enum status
file_sync_dir(int dir_fd, struct problem *why)
{
    if (fsync(dir_fd))
        return problem_errno(why, "cannot sync", "the directory");
    return STATUS_OK;
}

enum status
file_sync_path(const char *path, struct problem *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum status rc = STATUS_OK;

    if (fd < 0 || fsync(fd)) {
        rc = errno == ENOSPC || errno == EDQUOT ? STATUS_BUSY : STATUS_IO;
        problem_errno(why, "cannot make durable", path);
    }
    file_close(&fd);
    return rc;
}

/* The lock */

/* DIR/lock holds the pid of the last owner, as text, with a line end. */
static enum status
fail_locked(int fd, const char *dir, struct problem *why)
{
    char text[16] = "";
    long pid = 0;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    if (n > 0)
        pid = strtol(text, NULL, 10);
    if (pid > 0)
        return problem(why, STATUS_BUSY, "%s is in use by process %ld", dir,
                       pid);
    return problem(why, STATUS_BUSY, "%s is in use by another process", dir);
}

/*
 * The lock belongs to the open file, not to its name or content: it ends with
 * the process in any case, and the pid of a dead owner has no effect. The file
 * stays; if it were removed, two owners could lock two files of one name.
 */
enum status
file_lock(const char *dir, int *lock, struct problem *why)
{
    char path[PATH_MAX], pid[16];
    int fd = -1;
    enum status rc = STATUS_IO;

    if ((size_t)snprintf(path, sizeof(path), "%s/lock", dir) >= sizeof(path))
        errno = ENAMETOOLONG;
    else
        fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB)) {
        /* For the message to a refused process; a full disk is no reason to
         * stop here. */
        snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) == 0)
            (void)file_write(fd, slice_of(pid));
        *lock = fd;
        return STATUS_OK;
    }
    if (fd >= 0 && errno == EWOULDBLOCK)
        rc = fail_locked(fd, dir, why);
    else
        problem_errno(why, "cannot lock", path);
    file_close(&fd);
    return rc;
}

enum status
file_open_folder(int above_fd, const char *path, int *fd, struct problem *why)
{
    *fd = openat(above_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? problem_errno(why, "cannot open", path) : STATUS_OK;
}

enum status
file_share_folder(const char *path, int *fd, struct problem *why)
{
    enum status rc = file_open_folder(AT_FDCWD, path, fd, why);

    while (!rc && flock(*fd, LOCK_SH)) {
        if (errno == EINTR)
            continue;
        rc = problem_errno(why, "cannot lock", path);
        file_close(fd);
    }
    return rc;
}

bool
file_have_alone(int fd)
{
    return !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
}

void
file_end_alone(int fd)
{
    flock(fd, LOCK_UN);
}

enum status
file_share_lock(const char *dir, int *lock, struct problem *why)
{
    enum status rc = STATUS_OK;
    char path[PATH_MAX];

    *lock = -1;
    if ((size_t)snprintf(path, sizeof(path), "%s/lock", dir) >= sizeof(path))
        errno = ENAMETOOLONG;
    else if ((*lock = open(path, O_RDWR | O_CLOEXEC)) >= 0) {
        if (flock(*lock, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
            rc = fail_locked(*lock, dir, why);
        if (rc)
            file_close(lock);
        return rc;
    }
    return errno == ENOENT ? STATUS_OK
                           : problem_errno(why, "cannot lock", path);
}

enum status
file_check_lock(const char *dir, struct problem *why)
{
    int lock;
    enum status rc = file_share_lock(dir, &lock, why);

    file_close(&lock);
    return rc;
}

/* Making files */

enum status
file_begin(struct file_new *f, int dir_fd, const char *name,
           struct problem *why)
{
    *f = (struct file_new){.dir_fd = dir_fd, .fd = -1};
    if (strlen(name) >= sizeof(f->name)) {
        errno = ENAMETOOLONG;
        return problem_errno(why, "cannot write", name);
    }
    snprintf(f->name, sizeof(f->name), "%s", name);
    snprintf(f->temp, sizeof(f->temp), "%s.new", name);

    /* Overwrites the rest of a killed process; does not follow a link of that
     * name. */
    f->fd = openat(dir_fd, f->temp,
                   O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return problem_errno(why, "cannot write", name);
    if (inherit_mode(dir_fd, dir_fd, f->temp, MAY_READ)) {
        problem_errno(why, "cannot set the mode of", name);
        file_abandon(f);
        return STATUS_IO;
    }
    return STATUS_OK;
}

enum status
file_append(struct file_new *f, struct slice bytes, struct problem *why)
{
    if (file_write(f->fd, bytes))
        return problem_errno(why, "cannot write", f->name);
    return STATUS_OK;
}

static enum status
finish(struct file_new *f, bool is_synced, struct problem *why)
{
    /* The order is the guarantee: bytes, then name, then, by the caller, the
     * directory. */
    if ((is_synced && fsync(f->fd)) ||
        renameat(f->dir_fd, f->temp, f->dir_fd, f->name)) {
        problem_errno(why, "cannot write", f->name);
        file_abandon(f);
        return STATUS_IO;
    }
    file_close(&f->fd);
    return STATUS_OK;
}

enum status
file_finish(struct file_new *f, struct problem *why)
{
    return finish(f, true, why);
}

enum status
file_give_name(struct file_new *f, struct problem *why)
{
    return finish(f, false, why);
}

void
file_abandon(struct file_new *f)
{
    if (f->fd < 0)
        return;
    file_close(&f->fd);
    unlinkat(f->dir_fd, f->temp, 0);
}

static enum status
store(int dir_fd, const char *name, struct slice bytes, struct slice end,
      bool is_secret, struct problem *why)
{
    struct file_new file;
    enum status rc = file_begin(&file, dir_fd, name, why);

    if (!rc && is_secret && fchmod(file.fd, 0600))
        rc = problem_errno(why, "cannot protect", name);
    if (!rc)
        rc = file_append(&file, bytes, why);
    if (!rc)
        rc = file_append(&file, end, why);
    if (!rc)
        rc = file_finish(&file, why);
    file_abandon(&file); /* if it was begun, and did not end */
    return rc ? rc : file_sync_dir(dir_fd, why);
}

enum status
file_store(int dir_fd, const char *name, const char *line, struct problem *why)
{
    return store(dir_fd, name, slice_of(line), SLICE("\n"), false, why);
}

enum status
file_store_bytes(int dir_fd, const char *name, struct slice bytes,
                 bool is_secret, struct problem *why)
{
    return store(dir_fd, name, bytes, SLICE(""), is_secret, why);
}

enum status
file_store_in(const char *dir, const char *name, struct slice bytes,
              bool is_secret, struct problem *why)
{
    int dir_fd;
    enum status rc = file_open_folder(AT_FDCWD, dir, &dir_fd, why);

    if (!rc)
        rc = file_store_bytes(dir_fd, name, bytes, is_secret, why);
    file_close(&dir_fd);
    return rc;
}

ssize_t
file_read_rest(int fd, void *to, size_t size)
{
    size_t n = 0;

    while (n < size) {
        ssize_t got = read(fd, (char *)to + n, size - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

ssize_t
file_read(int above_fd, const char *path, void *to, size_t size)
{
    int fd = openat(above_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : file_read_rest(fd, to, size);

    file_close(&fd);
    return n;
}

enum status
file_digest(int fd, struct digest_check *check, file_go_on_fn *go_on,
            void *user, struct problem *why)
{
    enum status rc = digest_check_reset(check);
    char bytes[65536];
    ssize_t n = 1;

    while (!rc && (n = file_read_rest(fd, bytes, sizeof(bytes))) > 0) {
        rc = digest_check_add(check, (struct slice){bytes, (size_t)n}, why);
        if (!rc && go_on && !go_on(user))
            rc = STATUS_STOPPED;
    }
    if (!rc)
        rc = n < 0 ? STATUS_IO : digest_check_end(check, why);
    return rc;
}

uint64_t
file_free_bytes(int fd)
{
    struct statvfs fs;

    if (fstatvfs(fd, &fs))
        return 0;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

bool
file_of_bundle(char *to, size_t size, const char *name)
{
    char path[PATH_MAX + sizeof("/share/tidings/") + NAME_MAX];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

    for (int up = 0; up < 2 && n > 0; up++)
        while (n > 0 && path[--n] != '/')
            ;
    if (n < 0 || strlen(name) > NAME_MAX)
        return false;
    sprintf(path + n, "/share/tidings/%s", name);
    return !access(path, R_OK) && strlen(path) < size && strcpy(to, path);
}

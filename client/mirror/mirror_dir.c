/*
 * mirror_dir.c - the directory of a mirror.
 */
#include "client/mirror/mirror_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/mirror/resource_path.h"

#define FOUND_MAX 1000000

#define MIRROR_DIR_STATE_UPPER ".TIDINGS"

/* Our own paths are below these limits; a deeper tree counts as one object. */
#define WALK_DEPTH_MAX 500
#define WALK_PATH_MAX  4096

/* Opening */

static enum status
fail_at(struct problem *why, const char *what, const char *where)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return problem(
            why, STATUS_IO,
            "%s %s: %s; the finished files stay; make room and run it again",
            what, where, strerror(errno));
    if (errno == EXDEV)
        return problem(why, STATUS_IO,
                       "%s %s: it is on another file system than the "
                       "mirror's " MIRROR_DIR_STATE,
                       what, where);
    return problem(why, STATUS_IO, "%s %s: %s", what, where, strerror(errno));
}

/* Opens the directory `name` of a directory, but no link; -1: errno. */
static int
open_in(int dir_fd, const char *name)
{
    return openat(dir_fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a directory, which it makes if it is missing. `is_state`: syncs a new
 * one to the disk. */
static int
make_in(int dir_fd, const char *name, bool is_state)
{
    int fd = open_in(dir_fd, name);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(dir_fd, name, 0777) && errno != EEXIST)
        return -1;
    fd = open_in(dir_fd, name);
    if (fd >= 0 && is_state && fsync(dir_fd))
        file_close(&fd);
    return fd;
}

static bool
open_all(struct mirror_dir *home, const char *dir, bool is_new,
         struct problem *why)
{
    struct stat lower, upper;

    if (is_new && mkdir(dir, 0777) && errno != EEXIST)
        return !fail_at(why, "cannot make the directory", dir);
    home->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home->dir_fd < 0)
        return !fail_at(why, "cannot open the directory", dir);
    home->state_fd = is_new ? make_in(home->dir_fd, MIRROR_DIR_STATE, true)
                            : open_in(home->dir_fd, MIRROR_DIR_STATE);
    if (home->state_fd < 0 && errno == ENOENT)
        return !problem(why, STATUS_IO,
                        "%s is no mirror: it has no " MIRROR_DIR_STATE
                        "; tidings sync makes one",
                        dir);
    if (home->state_fd < 0)
        return !fail_at(why, "cannot use " MIRROR_DIR_STATE " of", dir);
    /* If it ignores case, two resources might share a file. */
    if (!fstat(home->state_fd, &lower) &&
        !fstatat(home->dir_fd, MIRROR_DIR_STATE_UPPER, &upper, 0) &&
        lower.st_dev == upper.st_dev && lower.st_ino == upper.st_ino)
        return !problem(
            why, STATUS_IO,
            "%s is on a file system that ignores the case of names: /A.txt "
            "and /a.txt would be one file",
            dir);
    /* Not file_lock: users may share a mirror, so the umask decides who may
     * lock it. */
    home->lock_fd = openat(home->state_fd, "lock",
                           O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (home->lock_fd < 0)
        return !fail_at(why, "cannot open the lock of the mirror", dir);
    if (flock(home->lock_fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? !problem(why, STATUS_IO,
                              "another process (tidings sync or audit) works "
                              "on the mirror %s",
                              dir)
                   : !fail_at(why, "cannot lock the mirror", dir);
    home->incoming_fd = make_in(home->state_fd, "incoming", true);
    return home->incoming_fd >= 0 ||
           !fail_at(why, "cannot make " MIRROR_DIR_STATE "/incoming of", dir);
}

struct mirror_dir *
mirror_dir_open(const char *dir, bool is_new, struct problem *why)
{
    struct mirror_dir *home = calloc(1, sizeof(*home));

    if (!home) {
        problem_memory(why);
        return NULL;
    }
    home->dir_fd = home->state_fd = home->lock_fd = -1;
    home->incoming_fd = home->found_fd = -1;
    if (asprintf(&home->state, "%s/" MIRROR_DIR_STATE, dir) < 0)
        home->state = NULL;
    if (!home->state)
        problem_memory(why);
    else if (open_all(home, dir, is_new, why))
        return home;
    mirror_dir_close(home);
    return NULL;
}

void
mirror_dir_close(struct mirror_dir *home)
{
    if (!home)
        return;
    file_close(&home->found_fd);
    file_close(&home->incoming_fd);
    file_close(&home->lock_fd);
    file_close(&home->state_fd);
    file_close(&home->dir_fd);
    free(home->state);
    free(home);
}

char *
mirror_dir_make_scratch(struct mirror_dir *home, int64_t set,
                        struct problem *why)
{
    char number[24];
    char *path = NULL;
    int above = make_in(home->state_fd, "scratch", true);
    int fd = -1;

    snprintf(number, sizeof(number), "%" PRId64, set);
    if (above >= 0)
        fd = make_in(above, number, true);
    if (fd < 0) {
        fail_at(why, "cannot make scratch/ in", home->state);
    } else if (asprintf(&path, "%s/scratch/%s", home->state, number) < 0) {
        problem_memory(why);
        path = NULL;
    }
    file_close(&fd);
    file_close(&above);
    return path;
}

/* Going down a path */

static bool
is_in_the_way(int error)
{
    return error == ENOTDIR || error == ELOOP;
}

/* Opens the directory of `path` and sets `*rest` to its last name. `makes`:
 * makes missing directories. -1: errno; with ELOOP, ENOTDIR `blocked` is the
 * name of the obstacle and `*parent_fd` the directory that it is in. */
static int
descend_path(const struct mirror_dir *home, const char *path, const char **rest,
             bool makes, int *parent_fd,
             char blocked[RESOURCE_PATH_NAME_MAX + 1])
{
    int fd = fcntl(home->dir_fd, F_DUPFD_CLOEXEC, 0);

    *rest = path;
    while (fd >= 0) {
        size_t size = strcspn(*rest, "/");
        int next, saved;

        if (!(*rest)[size] || size > RESOURCE_PATH_NAME_MAX)
            break; /* the last name */
        memcpy(blocked, *rest, size);
        blocked[size] = '\0';
        *rest += size + 1;
        next = makes ? make_in(fd, blocked, false) : open_in(fd, blocked);
        saved = errno;
        if (next < 0 && parent_fd && is_in_the_way(saved)) {
            *parent_fd = fd;
            errno = saved;
            return -1;
        }
        close(fd);
        errno = saved;
        fd = next;
    }
    return fd;
}

int
mirror_dir_directory(const struct mirror_dir *home, const char *path,
                     const char **name)
{
    char blocked[RESOURCE_PATH_NAME_MAX + 1];

    return descend_path(home, path, name, false, NULL, blocked);
}

static void
mark_of(const struct stat *st, struct mirror_dir_mark *mark)
{
    mark->size = (uint64_t)st->st_size;
    mark->mtime_ns =
        (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

enum mirror_dir_found
mirror_dir_look(const struct mirror_dir *home, const char *path,
                struct mirror_dir_mark *mark)
{
    enum mirror_dir_found found = MIRROR_DIR_FAILED;
    const char *name;
    struct stat st;
    int fd = mirror_dir_directory(home, path, &name);

    if (fd < 0)
        return is_in_the_way(errno) ? MIRROR_DIR_OTHER
               : errno == ENOENT    ? MIRROR_DIR_NOTHING
                                    : MIRROR_DIR_FAILED;
    if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) {
        found = S_ISREG(st.st_mode) ? MIRROR_DIR_FILE : MIRROR_DIR_OTHER;
        mark_of(&st, mark);
    } else if (errno == ENOENT) {
        found = MIRROR_DIR_NOTHING;
    }
    close(fd);
    return found;
}

/* Reading */

bool
mirror_dir_digest_file(int dir_fd, const char *name, file_go_on_fn *go_on,
                       void *user, char to[MIRROR_DIR_DIGEST_SIZE])
{
    struct digest_check *check = digest_check_new(SLICE(""), LENGTH_NONE, true);
    struct problem why = {""};
    struct digest digest;
    bool is_good =
        check && !digests_file(check, dir_fd, name, go_on, user, &why);

    if (is_good) {
        digest_check_sha256(check, &digest);
        strcpy(to, digest_text(&digest).text);
    }
    digest_check_free(check);
    return is_good;
}

bool
mirror_dir_digest(const struct mirror_dir *home, const char *path,
                  file_go_on_fn *go_on, void *user,
                  char to[MIRROR_DIR_DIGEST_SIZE])
{
    const char *name;
    int fd = mirror_dir_directory(home, path, &name);
    bool is_good;

    if (fd < 0)
        return false;
    is_good = mirror_dir_digest_file(fd, name, go_on, user, to);
    close(fd);
    return is_good;
}

struct walk {
    mirror_dir_walk_fn *fn;
    void *user;
    char path[WALK_PATH_MAX];
    size_t size;
    unsigned depth;
};

/* Visits the entries of a directory. */
static bool
walk_directory(struct walk *walk, int above_fd, const char *name)
{
    DIR *dir = file_open_dir(above_fd, name, O_NOFOLLOW);
    const struct dirent *entry;
    size_t size = walk->size;
    bool is_good = true;

    if (!dir)
        return false;
    walk->depth++;
    while (is_good && (entry = file_next(dir))) {
        struct stat st;
        int n;

        if (walk->depth == 1 && !strcmp(entry->d_name, MIRROR_DIR_STATE))
            continue;
        n = snprintf(walk->path + size, sizeof(walk->path) - size, "%s%s",
                     size ? "/" : "", entry->d_name);
        if (n < 0 || (size_t)n >= sizeof(walk->path) - size) {
            errno = ENAMETOOLONG;
            is_good = false;
            break;
        }
        walk->size = size + (size_t)n;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            is_good = errno == ENOENT;
        else if (!S_ISDIR(st.st_mode) || walk->depth >= WALK_DEPTH_MAX)
            is_good = walk->fn(walk->path, walk->user);
        else
            is_good = walk_directory(walk, dirfd(dir), entry->d_name);
    }
    is_good = is_good && errno == 0;
    walk->size = size;
    walk->path[size] = '\0';
    walk->depth--;
    closedir(dir);
    return is_good;
}

bool
mirror_dir_walk(struct mirror_dir *home, mirror_dir_walk_fn *fn, void *user)
{
    struct walk walk = {.fn = fn, .user = user};

    return walk_directory(&walk, home->dir_fd, ".");
}

/* Obstacles */

/* Opens found/, and makes the next folder in it. */
static int
make_found(struct mirror_dir *home)
{
    char name[16];

    if (home->found_fd < 0)
        home->found_fd = make_in(home->state_fd, "found", true);
    if (home->found_fd < 0)
        return -1;
    while (home->n_found < FOUND_MAX) {
        snprintf(name, sizeof(name), "%u", ++home->n_found);
        if (!mkdirat(home->found_fd, name, 0777))
            return open_in(home->found_fd, name);
        if (errno != EEXIST)
            return -1;
    }
    errno = ENOSPC;
    return -1;
}

/* Moves the object `name` of `dir_fd`, of any kind, to found/. */
static enum status
move_aside(struct mirror_dir *home, int dir_fd, const char *name,
           char where[MIRROR_DIR_WHERE_SIZE], struct problem *why)
{
    enum status rc = STATUS_OK;
    int fd = make_found(home);

    if (fd < 0 || renameat(dir_fd, name, fd, name) || fsync(fd) ||
        fsync(home->found_fd) || fsync(dir_fd))
        rc = fail_at(why, "cannot move out of the mirror's way:", name);
    else if (where)
        snprintf(where, MIRROR_DIR_WHERE_SIZE, MIRROR_DIR_STATE "/found/%u/%s",
                 home->n_found, name);
    file_close(&fd);
    return rc;
}

enum status
mirror_dir_set_aside(struct mirror_dir *home, const char *path,
                     char where[MIRROR_DIR_WHERE_SIZE], struct problem *why)
{
    enum status rc = STATUS_OK;
    char blocked[RESOURCE_PATH_NAME_MAX + 1];
    const char *name;
    struct stat st;
    int parent_fd = -1;
    int fd = descend_path(home, path, &name, false, &parent_fd, blocked);

    if (parent_fd >= 0) {
        fd = parent_fd;
        name = blocked;
    }
    if (fd < 0)
        return errno == ENOENT ? STATUS_OK
                               : fail_at(why, "cannot look at", path);
    if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        rc = move_aside(home, fd, name, where, why);
    else if (errno != ENOENT)
        rc = fail_at(why, "cannot look at", path);
    close(fd);
    return rc;
}

/* Opens the directory of `path`; makes it, and moves obstacles away. */
static int
make_way(struct mirror_dir *home, const char *path, const char **name,
         struct problem *why)
{
    char blocked[RESOURCE_PATH_NAME_MAX + 1];
    int fd;

    for (;;) {
        int parent_fd = -1;
        enum status rc;

        fd = descend_path(home, path, name, true, &parent_fd, blocked);
        if (fd >= 0)
            return fd;
        if (parent_fd < 0) {
            fail_at(why, "cannot make the directory of", path);
            return -1;
        }
        /* Each turn moves one obstacle away. */
        rc = move_aside(home, parent_fd, blocked, NULL, why);
        close(parent_fd);
        if (rc)
            return -1;
    }
}

/* To the disk */

/* A new descriptor will do: fsync is about the file, and reports to it earlier
 * write errors that no descriptor has reported yet. */
enum status
mirror_dir_sync_file(int dir_fd, const char *name, struct problem *why)
{
    enum status rc = STATUS_OK;
    int fd = openat(dir_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fsync(fd))
        rc = fail_at(why, "cannot write", name);
    file_close(&fd);
    return rc;
}

enum status
mirror_dir_sync_directory(const struct mirror_dir *home, const char *path,
                          struct problem *why)
{
    enum status rc = STATUS_OK;
    const char *name;
    int fd = mirror_dir_directory(home, path, &name);
    int above = fd;

    if (fd >= 0 && name[0]) {
        fd = open_in(above, name);
        file_close(&above);
    }
    /* If it is no directory now, it has none of our files. */
    if (fd < 0 && errno != ENOENT && !is_in_the_way(errno))
        rc = fail_at(why, "cannot look at", path);
    if (fd >= 0 && fsync(fd))
        rc = fail_at(why, "cannot write the directory", path);
    file_close(&fd);
    return rc;
}

/* Putting and removing */

enum status
mirror_dir_put(struct mirror_dir *home, const char *name, const char *path,
               int64_t lastmod_us, struct mirror_dir_mark *mark,
               struct problem *why)
{
    enum status rc = STATUS_OK;
    const char *to;
    struct stat st;
    int fd = make_way(home, path, &to, why);

    if (fd < 0)
        return why->rc;
    if (!fstatat(fd, to, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode)) {
        rc = move_aside(home, fd, to, NULL, why);
        if (rc)
            goto out;
    }
    if (lastmod_us != DATETIME_NONE) {
        int64_t us = (lastmod_us % 1000000 + 1000000) % 1000000;
        const struct timespec times[2] = {
            {.tv_nsec = UTIME_OMIT},
            {(time_t)((lastmod_us - us) / 1000000), (long)us * 1000}};

        /* If the file system cannot store the time, that is no failure. */
        (void)utimensat(home->incoming_fd, name, times, AT_SYMLINK_NOFOLLOW);
    }
    if (renameat(home->incoming_fd, name, fd, to) ||
        fstatat(fd, to, &st, AT_SYMLINK_NOFOLLOW))
        rc = fail_at(why, "cannot write", path);
    else
        mark_of(&st, mark);
out:
    close(fd);
    return rc;
}

enum status
mirror_dir_remove(struct mirror_dir *home, const char *path,
                  struct problem *why)
{
    enum status rc = STATUS_OK;
    char above[RESOURCE_PATH_MAX + 1], *slash;
    const char *name;
    struct stat st;
    bool is_empty = true;
    int fd = mirror_dir_directory(home, path, &name);

    if (fd < 0)
        return errno == ENOENT || is_in_the_way(errno)
                   ? STATUS_OK
                   : fail_at(why, "cannot look at", path);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno != ENOENT)
            rc = fail_at(why, "cannot look at", path);
    } else if (S_ISREG(st.st_mode) && unlinkat(fd, name, 0)) {
        rc = fail_at(why, "cannot remove", path);
    }
    close(fd);
    /* Removes the directories above from the lowest on, as long as they are
     * empty; foreign files keep theirs. */
    snprintf(above, sizeof(above), "%s", path);
    while (!rc && is_empty && (slash = strrchr(above, '/'))) {
        *slash = '\0';
        fd = mirror_dir_directory(home, above, &name);
        is_empty = fd >= 0 && !unlinkat(fd, name, AT_REMOVEDIR);
        file_close(&fd);
    }
    return rc;
}

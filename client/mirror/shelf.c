/*
 * shelf.c - the directory of a mirror.
 */
#include "client/mirror/shelf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/mirror/resource_path.h"
#include "client/mirror/shelf_inside.h"
#include "proto/datetime.h"

#define FOUND_MAX 1000000

#define SHELF_STATE_UPPER ".TIDINGS"

/* Opening */

static enum status
fail(struct problem *why, const char *what, const char *where)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return problem(why, STATUS_IO,
                       "%s %s: %s; all that was done is kept, make room "
                       "and run it again",
                       what, where, strerror(errno));
    if (errno == EXDEV)
        return problem(why, STATUS_IO,
                       "%s %s: it is on another file system than the "
                       "mirror's " SHELF_STATE_NAME,
                       what, where);
    return problem(why, STATUS_IO, "%s %s: %s", what, where, strerror(errno));
}

int
shelf_open_in(int dir_fd, const char *name)
{
    return openat(dir_fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a directory, which it makes if it is missing. */
static int
make_in(int dir_fd, const char *name)
{
    int fd = shelf_open_in(dir_fd, name);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(dir_fd, name, 0777) && errno != EEXIST)
        return -1;
    return shelf_open_in(dir_fd, name);
}

/* The same for a directory of the state; syncs a new one to the disk. */
static int
make_state_in(int dir_fd, const char *name)
{
    int fd = shelf_open_in(dir_fd, name);

    if (fd >= 0)
        return fd;
    fd = make_in(dir_fd, name);
    if (fd >= 0 && fsync(dir_fd)) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static bool
take_lock(struct shelf *shelf, const char *dir, struct problem *why)
{
    shelf->lock_fd = openat(shelf->state_fd, "lock",
                            O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (shelf->lock_fd < 0)
        fail(why, "cannot open the lock of the mirror", dir);
    else if (!flock(shelf->lock_fd, LOCK_EX | LOCK_NB))
        return true;
    else if (errno == EWOULDBLOCK)
        problem(why, STATUS_IO,
                "another process (tidings sync or audit) works on the "
                "mirror %s",
                dir);
    else
        fail(why, "cannot lock the mirror", dir);
    return false;
}

/* True if the file system ignores case: two resources might share a file. */
static bool
is_blind_for_case(const struct shelf *shelf)
{
    struct stat lower;
    struct stat upper;

    return !fstat(shelf->state_fd, &lower) &&
           !fstatat(shelf->dir_fd, SHELF_STATE_UPPER, &upper, 0) &&
           lower.st_dev == upper.st_dev && lower.st_ino == upper.st_ino;
}

static bool
open_all(struct shelf *shelf, const char *dir, bool is_new, struct problem *why)
{
    if (is_new && mkdir(dir, 0777) && errno != EEXIST) {
        fail(why, "cannot make the directory", dir);
        return false;
    }
    shelf->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shelf->dir_fd < 0) {
        fail(why, "cannot open the directory", dir);
        return false;
    }
    shelf->state_fd = is_new ? make_state_in(shelf->dir_fd, SHELF_STATE_NAME)
                             : shelf_open_in(shelf->dir_fd, SHELF_STATE_NAME);
    if (shelf->state_fd < 0 && errno == ENOENT) {
        problem(why, STATUS_IO,
                "%s is no mirror: it has no " SHELF_STATE_NAME
                "; tidings sync makes one",
                dir);
        return false;
    }
    if (shelf->state_fd < 0) {
        fail(why, "cannot use " SHELF_STATE_NAME " of", dir);
        return false;
    }
    if (is_blind_for_case(shelf)) {
        problem(why, STATUS_IO,
                "%s is on a file system that does not tell upper-case from "
                "lower-case names: /A.txt and /a.txt would be one file",
                dir);
        return false;
    }
    if (!take_lock(shelf, dir, why))
        return false;
    shelf->incoming_fd = make_state_in(shelf->state_fd, "incoming");
    if (shelf->incoming_fd < 0)
        fail(why, "cannot make " SHELF_STATE_NAME "/incoming of", dir);
    return shelf->incoming_fd >= 0;
}

struct shelf *
shelf_open(const char *dir, bool is_new, struct problem *why)
{
    struct shelf *shelf = calloc(1, sizeof(*shelf));

    if (!shelf) {
        problem_memory(why);
        return NULL;
    }
    shelf->dir_fd = shelf->state_fd = shelf->lock_fd = -1;
    shelf->incoming_fd = shelf->found_fd = -1;
    if (asprintf(&shelf->state, "%s/" SHELF_STATE_NAME, dir) < 0)
        shelf->state = NULL;
    if (!shelf->state)
        problem_memory(why);
    else if (open_all(shelf, dir, is_new, why))
        return shelf;
    shelf_close(shelf);
    return NULL;
}

static void
close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

void
shelf_close(struct shelf *shelf)
{
    if (!shelf)
        return;
    close_one(shelf->found_fd);
    close_one(shelf->incoming_fd);
    close_one(shelf->lock_fd);
    close_one(shelf->state_fd);
    close_one(shelf->dir_fd);
    free(shelf->state);
    free(shelf);
}

const char *
shelf_state(const struct shelf *shelf)
{
    return shelf->state;
}

char *
shelf_make_scratch(struct shelf *shelf, int64_t set, struct problem *why)
{
    char number[24];
    char *path = NULL;
    int above = make_state_in(shelf->state_fd, "scratch");
    int fd = -1;

    snprintf(number, sizeof(number), "%" PRId64, set);
    if (above >= 0)
        fd = make_state_in(above, number);
    if (fd < 0) {
        fail(why, "cannot make scratch/ in", shelf->state);
    } else if (asprintf(&path, "%s/scratch/%s", shelf->state, number) < 0) {
        problem_memory(why);
        path = NULL;
    }
    close_one(fd);
    close_one(above);
    return path;
}

char *
shelf_listing(const struct shelf *shelf, int64_t set)
{
    char *path;

    return asprintf(&path, "%s/list-%" PRId64 ".db", shelf->state, set) < 0
               ? NULL
               : path;
}

int
shelf_incoming(const struct shelf *shelf)
{
    return shelf->incoming_fd;
}

/* Going down a path */

/* Takes the next directory of a path off `*rest` into `name`. False: `*rest` is
 * the file's name. */
static bool
next_directory(const char **rest, char name[RESOURCE_PATH_NAME_MAX + 1])
{
    size_t size = strcspn(*rest, "/");

    if (!(*rest)[size] || size > RESOURCE_PATH_NAME_MAX)
        return false;
    memcpy(name, *rest, size);
    name[size] = '\0';
    *rest += size + 1;
    return true;
}

/* Opens the directory of `path` and sets `*rest` to its last name. `makes`:
 * makes missing directories. -1: errno; with ELOOP, ENOTDIR `blocked` is the
 * name of the obstacle and `*parent_fd` the directory that it is in. */
static int
descend(const struct shelf *shelf, const char *path, const char **rest,
        bool makes, int *parent_fd, char blocked[RESOURCE_PATH_NAME_MAX + 1])
{
    int fd = fcntl(shelf->dir_fd, F_DUPFD_CLOEXEC, 0);

    *rest = path;
    while (fd >= 0 && next_directory(rest, blocked)) {
        int next = makes ? make_in(fd, blocked) : shelf_open_in(fd, blocked);
        int saved = errno;

        if (next < 0 && parent_fd && (saved == ENOTDIR || saved == ELOOP)) {
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
shelf_directory(const struct shelf *shelf, const char *path, const char **name)
{
    char blocked[RESOURCE_PATH_NAME_MAX + 1];

    return descend(shelf, path, name, false, NULL, blocked);
}

static void
mark_of(const struct stat *st, struct shelf_mark *mark)
{
    mark->size = (uint64_t)st->st_size;
    mark->mtime_ns =
        (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool
is_in_the_way(int error)
{
    return error == ENOTDIR || error == ELOOP;
}

enum shelf_found
shelf_look(const struct shelf *shelf, const char *path, struct shelf_mark *mark)
{
    enum shelf_found found = SHELF_FAILED;
    const char *name;
    struct stat st;
    int fd = shelf_directory(shelf, path, &name);

    if (fd < 0)
        return is_in_the_way(errno) ? SHELF_OTHER
               : errno == ENOENT    ? SHELF_NOTHING
                                    : SHELF_FAILED;
    if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) {
        found = S_ISREG(st.st_mode) ? SHELF_FILE : SHELF_OTHER;
        mark_of(&st, mark);
    } else if (errno == ENOENT) {
        found = SHELF_NOTHING;
    }
    close(fd);
    return found;
}

/* Obstacles */

/* Opens found/, and makes the next folder in it. */
static int
make_found(struct shelf *shelf, unsigned *number)
{
    char name[16];

    if (shelf->found_fd < 0)
        shelf->found_fd = make_state_in(shelf->state_fd, "found");
    if (shelf->found_fd < 0)
        return -1;
    while (shelf->n_found < FOUND_MAX) {
        snprintf(name, sizeof(name), "%u", ++shelf->n_found);
        if (!mkdirat(shelf->found_fd, name, 0777)) {
            *number = shelf->n_found;
            return shelf_open_in(shelf->found_fd, name);
        }
        if (errno != EEXIST)
            return -1;
    }
    errno = ENOSPC;
    return -1;
}

/* Moves the object `name` of `dir_fd`, of any kind, to found/. */
static enum status
move_aside(struct shelf *shelf, int dir_fd, const char *name,
           char where[SHELF_WHERE_SIZE], struct problem *why)
{
    enum status rc = STATUS_OK;
    unsigned number = 0;
    int fd = make_found(shelf, &number);

    if (fd < 0 || renameat(dir_fd, name, fd, name) || fsync(fd) ||
        fsync(shelf->found_fd) || fsync(dir_fd))
        rc = fail(why, "cannot move out of the mirror's way:", name);
    else if (where)
        snprintf(where, SHELF_WHERE_SIZE, SHELF_STATE_NAME "/found/%u/%s",
                 number, name);
    if (fd >= 0)
        close(fd);
    return rc;
}

enum status
shelf_set_aside(struct shelf *shelf, const char *path,
                char where[SHELF_WHERE_SIZE], struct problem *why)
{
    enum status rc = STATUS_OK;
    char blocked[RESOURCE_PATH_NAME_MAX + 1];
    const char *name;
    struct stat st;
    int parent_fd = -1;
    int fd = descend(shelf, path, &name, false, &parent_fd, blocked);

    if (parent_fd >= 0) {
        fd = parent_fd;
        name = blocked;
    }
    if (fd < 0)
        return errno == ENOENT ? STATUS_OK : fail(why, "cannot look at", path);
    if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        rc = move_aside(shelf, fd, name, where, why);
    else if (errno != ENOENT)
        rc = fail(why, "cannot look at", path);
    close(fd);
    return rc;
}

/* Opens the directory of `path`; makes it, and moves obstacles away. */
static int
make_way(struct shelf *shelf, const char *path, const char **name,
         struct problem *why)
{
    char blocked[RESOURCE_PATH_NAME_MAX + 1];
    int fd;

    for (;;) {
        int parent_fd = -1;
        enum status rc;

        fd = descend(shelf, path, name, true, &parent_fd, blocked);
        if (fd >= 0)
            return fd;
        if (parent_fd < 0) {
            fail(why, "cannot make the directory of", path);
            return -1;
        }
        /* Each turn moves one obstacle away. */
        rc = move_aside(shelf, parent_fd, blocked, NULL, why);
        close(parent_fd);
        if (rc)
            return -1;
    }
}

/* To the disk */

/* A new descriptor will do: fsync is about the file, and reports to it earlier
 * write errors that no descriptor has reported yet. */
enum status
shelf_sync_file(int dir_fd, const char *name, struct problem *why)
{
    enum status rc = STATUS_OK;
    int fd = openat(dir_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fsync(fd))
        rc = fail(why, "cannot write", name);
    close_one(fd);
    return rc;
}

enum status
shelf_sync_directory(const struct shelf *shelf, const char *path,
                     struct problem *why)
{
    enum status rc = STATUS_OK;
    const char *name;
    int fd = shelf_directory(shelf, path, &name);
    int above = fd;

    if (fd >= 0 && name[0]) {
        fd = shelf_open_in(above, name);
        if (fd < 0) {
            int saved = errno;

            close(above);
            errno = saved;
        } else {
            close(above);
        }
    }
    /* If it is no directory now, it has none of our files. */
    if (fd < 0 && errno != ENOENT && !is_in_the_way(errno))
        rc = fail(why, "cannot look at", path);
    if (fd >= 0 && fsync(fd))
        rc = fail(why, "cannot write the directory", path);
    close_one(fd);
    return rc;
}

/* Putting and removing */

static bool
set_time(int from_fd, const char *name, int64_t lastmod_us)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    int64_t seconds = lastmod_us / 1000000;
    int64_t rest = lastmod_us % 1000000;

    if (rest < 0) {
        seconds--;
        rest += 1000000;
    }
    times[1] = (struct timespec){(time_t)seconds, (long)rest * 1000};
    return !utimensat(from_fd, name, times, AT_SYMLINK_NOFOLLOW);
}

enum status
shelf_put(struct shelf *shelf, int from_fd, const char *name, const char *path,
          int64_t lastmod_us, struct shelf_mark *mark, struct problem *why)
{
    enum status rc = STATUS_OK;
    const char *to;
    struct stat st;
    int fd = make_way(shelf, path, &to, why);

    if (fd < 0)
        return why->rc;
    if (!fstatat(fd, to, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode)) {
        rc = move_aside(shelf, fd, to, NULL, why);
        if (rc)
            goto out;
    }
    /* If the file system cannot store the time, that is no failure. */
    if (lastmod_us != DATETIME_NONE)
        set_time(from_fd, name, lastmod_us);
    if (renameat(from_fd, name, fd, to) ||
        fstatat(fd, to, &st, AT_SYMLINK_NOFOLLOW))
        rc = fail(why, "cannot write", path);
    else
        mark_of(&st, mark);
out:
    close(fd);
    return rc;
}

/* Removes the directories above `path` from the lowest on, as long as they are
 * empty; foreign files keep theirs. */
static void
remove_empty(const struct shelf *shelf, const char *path)
{
    char above[RESOURCE_PATH_MAX + 1];
    char *slash;

    snprintf(above, sizeof(above), "%s", path);
    while ((slash = strrchr(above, '/'))) {
        const char *name;
        bool is_gone;
        int fd;

        *slash = '\0';
        fd = shelf_directory(shelf, above, &name);
        if (fd < 0)
            return;
        is_gone = !unlinkat(fd, name, AT_REMOVEDIR);
        close(fd);
        if (!is_gone)
            return;
    }
}

enum status
shelf_remove(struct shelf *shelf, const char *path, struct problem *why)
{
    enum status rc = STATUS_OK;
    const char *name;
    struct stat st;
    int fd = shelf_directory(shelf, path, &name);

    if (fd < 0)
        return errno == ENOENT || is_in_the_way(errno)
                   ? STATUS_OK
                   : fail(why, "cannot look at", path);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno != ENOENT)
            rc = fail(why, "cannot look at", path);
    } else if (S_ISREG(st.st_mode) && unlinkat(fd, name, 0)) {
        rc = fail(why, "cannot remove", path);
    }
    close(fd);
    if (!rc)
        remove_empty(shelf, path);
    return rc;
}

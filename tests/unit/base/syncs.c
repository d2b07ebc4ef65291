#include "tests/unit/base/syncs.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/test.h"

#define EVENTS_MAX 4096

/* An inode was synced, or got a name in the directory `dir`. */
struct event {
    ino_t inode, dir;
    bool is_name;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct event events[EVENTS_MAX];
static size_t n_events;

static void
record(ino_t inode, ino_t dir, bool is_name)
{
    pthread_mutex_lock(&mutex);
    if (n_events < EVENTS_MAX)
        events[n_events++] = (struct event){inode, dir, is_name};
    pthread_mutex_unlock(&mutex);
}

/* Both are inodes of one file system: that of a test's directory. */
static ino_t
inode_of(int dir_fd, const char *name)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)
               ? 0
               : st.st_ino;
}

/* The program calls these instead of the system's */

int
fsync(int fd)
{
    if (syscall(SYS_fsync, fd))
        return -1;
    record(inode_of(fd, ""), 0, false);
    return 0;
}

int
fdatasync(int fd)
{
    if (syscall(SYS_fdatasync, fd))
        return -1;
    record(inode_of(fd, ""), 0, false);
    return 0;
}

int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    const char *slash = strrchr(to, '/');
    char dir[4096];

    if (syscall(SYS_renameat2, from_fd, from, to_fd, to, 0))
        return -1;
    snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - to) : 0, to);
    record(inode_of(to_fd, to), inode_of(to_fd, dir), true);
    return 0;
}

int
rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* Questions of a test */

void
syncs_begin(void)
{
    pthread_mutex_lock(&mutex);
    n_events = 0;
    pthread_mutex_unlock(&mutex);
}

static bool
is_synced(ino_t inode, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (!events[i].is_name && events[i].inode == inode)
            return true;
    return false;
}

bool
syncs_keep_file(int dir_fd, const char *name)
{
    ino_t inode = inode_of(dir_fd, name);
    bool is_kept = false;

    pthread_mutex_lock(&mutex);
    assert_true(n_events < EVENTS_MAX);
    for (size_t i = n_events; inode && i-- > 0;)
        if (events[i].is_name && events[i].inode == inode) {
            is_kept = is_synced(inode, 0, i) &&
                      is_synced(events[i].dir, i + 1, n_events);
            break;
        }
    pthread_mutex_unlock(&mutex);
    return is_kept;
}

bool
syncs_keep_directory(int dir_fd, const char *name)
{
    ino_t inode = inode_of(dir_fd, name);
    bool is_kept;

    pthread_mutex_lock(&mutex);
    is_kept = inode && is_synced(inode, 0, n_events);
    pthread_mutex_unlock(&mutex);
    return is_kept;
}

#include "broker/net/unix_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Addresses */

enum status
socket_path_open(struct socket_path *p, const char *path, struct problem *why)
{
    char *to = p->address.sun_path;
    size_t size = sizeof(p->address.sun_path);
    const char *slash = strrchr(path, '/');
    char *dir = slash ? slice_dup(slice_between(path, slash + 1)) : NULL;

    memset(p, 0, sizeof(*p));
    p->address.sun_family = AF_UNIX;
    p->name = slash ? slash + 1 : path;
    p->dir_fd = open(slash ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (p->dir_fd < 0)
        return problem_errno(why, "cannot open the directory of", path);
    if ((size_t)snprintf(to, size, "%s", path) >= size &&
        (size_t)snprintf(to, size, "/proc/self/fd/%d/%s", p->dir_fd, p->name) >=
            size)
        errno = ENAMETOOLONG;
    else if (!*p->name)
        errno = EISDIR;
    else
        return STATUS_OK;
    socket_path_close(p);
    return problem_errno(why, "there can be no socket", path);
}

void
socket_path_close(struct socket_path *p)
{
    file_close(&p->dir_fd);
}

/* Listening */

/* Why a path cannot be listened on. */
static enum status
fail(struct problem *why, const char *path)
{
    return problem_errno(why, "cannot listen on", path);
}

/* Looks at the file that has the name. Sets *is_left: it is a socket that
 * nobody listens on. Success without that: there is no file. */
static enum status
look_at_file(const struct socket_path *at, const char *path, bool *is_left,
             struct problem *why)
{
    struct stat st;
    int fd, error = 0;

    *is_left = false;
    if (fstatat(at->dir_fd, at->name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? STATUS_OK : fail(why, path);
    if (!S_ISSOCK(st.st_mode))
        return problem(why, STATUS_IO,
                       "cannot listen on %s: a file that is no socket has that "
                       "name",
                       path);
    /* Connects, without waiting for room in the backlog. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (const struct sockaddr *)&at->address, sizeof(at->address)))
        error = errno;
    file_close(&fd);
    *is_left = error == ECONNREFUSED;
    if (*is_left)
        return STATUS_OK;
    errno = error == 0 || error == EAGAIN ? EADDRINUSE : error;
    return fail(why, path);
}

enum status
unix_socket_listen(const struct unix_socket *unix_socket, int backlog,
                   struct unix_file *file, int *fd, struct problem *why)
{
    const char *path = unix_socket->path;
    const struct socket_path *at = &file->at;
    enum status rc = socket_path_open(&file->at, path, why);
    bool is_left = false;
    struct stat st;

    *fd = -1;
    if (rc)
        return rc;
    file->ino = 0;
    rc = look_at_file(&file->at, path, &is_left, why);
    if (!rc && is_left && unlinkat(at->dir_fd, at->name, 0))
        rc = fail(why, path);
    if (rc) {
        unix_socket_remove(file);
        return rc;
    }
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* A file gets the mode of its socket, less the umask. */
    if (*fd >= 0 && !fchmod(*fd, unix_socket->mode) &&
        !bind(*fd, (const struct sockaddr *)&at->address,
              sizeof(at->address))) {
        if (!fstatat(at->dir_fd, at->name, &st, AT_SYMLINK_NOFOLLOW)) {
            file->dev = st.st_dev;
            file->ino = st.st_ino;
        }
        if (!fchmodat(at->dir_fd, at->name, unix_socket->mode,
                      AT_SYMLINK_NOFOLLOW) &&
            !listen(*fd, backlog))
            return STATUS_OK;
    }
    rc = fail(why, path);
    file_close(fd);
    unix_socket_remove(file);
    return rc;
}

void
unix_socket_remove(struct unix_file *file)
{
    const struct socket_path *at = &file->at;
    struct stat st;

    if (file->ino && !fstatat(at->dir_fd, at->name, &st, AT_SYMLINK_NOFOLLOW) &&
        st.st_dev == file->dev && st.st_ino == file->ino)
        unlinkat(at->dir_fd, at->name, 0);
    socket_path_close(&file->at);
}

enum status
server_check_unix(const struct unix_socket *socket, struct problem *why)
{
    struct socket_path at;
    bool is_left = false;
    enum status rc = socket_path_open(&at, socket->path, why);

    if (rc)
        return rc;
    rc = look_at_file(&at, socket->path, &is_left, why);
    if (!rc && faccessat(at.dir_fd, ".", W_OK | X_OK, AT_EACCESS))
        rc = fail(why, socket->path);
    socket_path_close(&at);
    return rc;
}

uid_t
unix_socket_peer(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};

    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){sizeof(peer)});
    return peer.uid;
}

/*
 * unix_socket.h - a listening unix socket, and its file.
 *
 * The file has its mode from the start, less what the umask forbids; that is
 * added before the socket listens. A file that a broker left when it died is
 * replaced: a socket that refuses connections. Any other file stays, and the
 * socket is an error.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "broker/net/server.h"

/* The address of a unix socket, however long its path is.
 *
 * An address has 108 bytes for a path. A longer path is named by a descriptor
 * of its directory: /proc/self/fd/7/control.sock. So the address holds in this
 * process, and until socket_path_close.
 */
struct socket_path {
    struct sockaddr_un address; /* its path is terminated */
    int dir_fd;                 /* the directory of the socket (O_PATH) */
    const char *name;           /* in that directory; lent: of the path */
};

/* Opens the directory of `path`, which is lent until socket_path_close. The
 * socket itself need not exist. `why` names the path. */
MUST_CHECK enum status socket_path_open(struct socket_path *p, const char *path,
                                        struct problem *why);
void socket_path_close(struct socket_path *p);

/* The file of a socket. */
struct unix_file {
    struct socket_path at;
    dev_t dev;
    ino_t ino;
};

/* Listens on `path`, which is lent until unix_socket_remove, and sets *fd.
 * `why` names the path. */
MUST_CHECK enum status unix_socket_listen(const struct unix_socket *socket,
                                          int backlog, struct unix_file *file,
                                          int *fd, struct problem *why);

/* Removes the file, unless another one has its name by now. */
void unix_socket_remove(struct unix_file *file);

/* The user of the process that has connected; -1: unknown. */
uid_t unix_socket_peer(int fd);

/*
 * socket_path.h - the address of a unix socket, however long its path is.
 *
 * An address has 108 bytes for a path. A longer path is named by a descriptor
 * of its directory: /proc/self/fd/7/control.sock. So the address holds in this
 * process, and until socket_path_close.
 */
#ifndef BASE_SOCKET_PATH_H
#define BASE_SOCKET_PATH_H

#include <sys/socket.h>
#include <sys/un.h>

#include "proto/problem.h"
#include "proto/status.h"

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

#endif

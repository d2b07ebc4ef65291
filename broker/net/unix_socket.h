/*
 * unix_socket.h - a listening unix socket, and its file. For this folder only.
 *
 * The file has its mode from the start, less what the umask forbids; that is
 * added before the socket listens. A file that a broker left when it died is
 * replaced: a socket that refuses connections. Any other file stays, and the
 * socket is an error.
 */
#ifndef BROKER_NET_UNIX_SOCKET_H
#define BROKER_NET_UNIX_SOCKET_H

#include <sys/types.h>

#include "base/socket_path.h"
#include "broker/net/server.h"

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

/* Checks that unix_socket_listen could succeed now. Changes nothing. */
MUST_CHECK enum status unix_socket_check(const struct unix_socket *socket,
                                         struct problem *why);

/* The user of the process that has connected; -1: unknown. */
uid_t unix_socket_peer(int fd);

#endif

/*
 * socket.h - what the kernel knows of a connection. For this folder only.
 */
#ifndef BROKER_NET_SOCKET_H
#define BROKER_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes the peer has acknowledged in all. */
uint64_t socket_acked(int fd);

/* Are there bytes that nobody has read yet? */
bool socket_has_unread(int fd);

/* Has the peer ended the connection, at least its sending, or reset it? Also
 * where there are unread bytes before the end. */
bool socket_is_ended(int fd);

/* Reads and drops what is there, and adds up to *drained. false: the connection
 * is at its end, or *drained at `max`. */
bool socket_drain(int fd, uint64_t *drained, uint64_t max);

/* Writes the peer's address, without a port: IPv4 as itself also on a socket of
 * IPv6; "": there is none any more. */
void socket_peer(int fd, char *to, size_t size);

#endif

/*
 * tcp.h - what the kernel knows of a TCP connection. For this folder only.
 */
#ifndef BROKER_NET_TCP_H
#define BROKER_NET_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes the peer has acknowledged in all. */
uint64_t tcp_acked(int fd);

/* Are there bytes that nobody has read yet? */
bool tcp_has_unread(int fd);

/* Has the peer ended the connection, at least its sending, or reset it? Also
 * where there are unread bytes before the end. */
bool tcp_is_ended(int fd);

/* The address at the other end; AF_UNSPEC: there is none any more. */
struct sockaddr_storage;
void tcp_peer(int fd, struct sockaddr_storage *peer);

#endif

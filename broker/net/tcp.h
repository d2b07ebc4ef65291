/*
 * tcp.h - the kernel's state of a connection: of TCP, or where it says so, of a
 * unix socket. For this folder only.
 */
#pragma once

#include "proto/c.h"

/* How many bytes the kernel takes for a client beyond those that are on their
 * way to it. Nothing is on its way to a client that does not read, so the
 * kernel holds this and at most one skb for it; without a limit it holds 3 MB.
 * SO_SNDBUF would limit the bytes on their way, too, and so the rate over a
 * distance: with 256 KB and a round trip of 20 ms, 16 MB/s were measured
 * instead of 70 to 100. */
#define UNSENT_MAX (256 * 1024)

/* Sets that limit for a connection, or for those that a listening socket
 * accepts. */
void tcp_limit_unsent(int fd, int bytes);

/* How many bytes the kernel holds that it has not sent yet. Of a unix socket,
 * 0: the kernel holds no more than 208 KB there. */
size_t tcp_unsent(int fd);

/* How many bytes the kernel holds that the peer has not acknowledged; 0 if the
 * connection is over. Of a unix socket: unix_unread. */
size_t tcp_left(int fd);

/* The kernel drops the bytes that it holds when the socket is closed; otherwise
 * it keeps them for minutes for a client that does not read, and they belong to
 * nobody. */
void tcp_reset_at_close(int fd);

/* The number of bytes that the peer has acknowledged in all. */
uint64_t tcp_acked(int fd);

/* Of a unix socket: the memory of writes that the peer has not read whole. */
uint64_t unix_unread(int fd);

/* True if there are unread bytes. Of a unix socket, too. */
bool tcp_has_unread(int fd);

/* True if the peer has ended the connection, at least its sending, or reset it;
 * also if there are unread bytes before the end. Of a unix socket, too. */
bool tcp_is_ended(int fd);

/* The address of the peer; AF_UNSPEC: there is none any more. */
struct sockaddr_storage;
void tcp_peer(int fd, struct sockaddr_storage *peer);

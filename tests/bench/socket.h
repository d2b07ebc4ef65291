/*
 * socket.h - connections to a port of the loopback address.
 */
#ifndef TESTS_BENCH_SOCKET_H
#define TESTS_BENCH_SOCKET_H

#include <sys/types.h>

/* All later connections use TLS. */
void wire_use_tls(void);

/* A blocking connection, without delay; `receive_bytes`: its receive buffer, 0
 * for the kernel's own choice. Ends the program if there is none. */
int wire_connect(unsigned port, int receive_bytes);

void wire_set_nonblocking(int fd);

/* As send, recv (errno is EAGAIN or something else) and close. */
ssize_t wire_send(int fd, const void *data, size_t size);
ssize_t wire_receive(int fd, void *to, size_t size);
void wire_close(int fd);

#endif

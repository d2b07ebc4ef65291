/*
 * socket.h - connections to a port of the loopback address.
 */
#ifndef TESTS_BENCH_SOCKET_H
#define TESTS_BENCH_SOCKET_H

/* A blocking connection, without delay; `receive_bytes`: its receive buffer, 0
 * for the kernel's own choice. Ends the program if there is none. */
int socket_connect(unsigned port, int receive_bytes);

void socket_set_nonblocking(int fd);

#endif

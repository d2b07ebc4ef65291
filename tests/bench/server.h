/*
 * server.h - the server that is measured: started, pinned to its core, ended.
 *
 * Any program will do that prints a line with "SCHEME://127.0.0.1:PORT/" once
 * it is ready and ends after SIGTERM: tidingsd, the floor, or a peer.
 * protocol.h knows the schemes; with "https" all connections are over TLS.
 */
#ifndef TESTS_BENCH_SERVER_H
#define TESTS_BENCH_SERVER_H

#include <sys/types.h>

#include "tests/bench/protocol.h"

struct server {
    pid_t pid;
    int out; /* its standard output */
    unsigned port;
    const struct protocol *protocol;
};

/* Starts command[0]; NULL ends the command. Prints the pid on standard error,
 * for a profiler. Ends the program if the server is not ready in time. */
void server_start(struct server *server, char *const *command, int core);

/* Ends it, politely first. */
void server_stop(struct server *server);

#endif

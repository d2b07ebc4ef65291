/*
 * listener.h - listening sockets and accepting. For this folder only.
 *
 * Each service thread has its own socket on each address, joined by
 * SO_REUSEPORT: the kernel distributes the connections, and no lock is shared.
 */
#ifndef BROKER_NET_LISTENER_H
#define BROKER_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "proto/problem.h"
#include "proto/status.h"

/* "localhost" has two; further addresses of a name are ignored. */
#define ADDRESSES_MAX 4

struct service;

struct addresses {
    struct sockaddr_storage at[ADDRESSES_MAX];
    socklen_t size[ADDRESSES_MAX];
    unsigned n;
};

/* Finds the addresses of `host` to listen on, and if *port is 0 a port that is
 * free on all of them. */
MUST_CHECK enum status addresses_find(struct addresses *a, const char *host,
                                      unsigned *port, struct problem *why);

struct listeners {
    uv_poll_t polls[ADDRESSES_MAX];
    int fds[ADDRESSES_MAX];
    unsigned n;
    bool is_closed;
    int spare;       /* kept for the moment when no other is left */
    bool is_paused;  /* out of descriptors; until the next second */
    int64_t told_us; /* when this was last reported */
};

/* Listens on `addresses` on the service's loop. */
MUST_CHECK enum status listeners_open(struct service *service,
                                      const struct addresses *addresses,
                                      struct problem *why);

/* Accepts again after a pause. */
void listeners_resume(struct service *service);

/* May be repeated. */
void listeners_close(struct service *service);

#endif

/*
 * resolve.h - the addresses of a host's name, asked for without waiting.
 *
 * The C library's question blocks, for half a minute where a name server is
 * silent, and cannot be taken back. So a thread of its own asks it; whoever
 * wants the answer no more lets go of it, and the thread ends when it can.
 */
#ifndef BROKER_BRIDGE_RESOLVE_H
#define BROKER_BRIDGE_RESOLVE_H

#include <stddef.h>

#include "proto/problem.h"
#include "proto/status.h"

/* More than these nobody tries. */
#define RESOLVE_MAX 8

struct resolve;

struct resolve_answer {
    char addresses[RESOLVE_MAX][128]; /* "127.0.0.1", "fe80::1%eth0"; in the
                                         order in which they are to be tried */
    size_t n;                         /* at least 1 */
};

/* `host` is a name or an address itself. */
MUST_CHECK enum status resolve_begin(struct resolve **resolve, const char *host,
                                     struct problem *why);

/* Becomes readable when there is an answer. Lent. */
int resolve_fd(const struct resolve *resolve);

/* STATUS_RUNNING: not yet; STATUS_NOT_FOUND: there is none, `why` says why. */
MUST_CHECK enum status resolve_take(struct resolve *resolve,
                                    struct resolve_answer *answer,
                                    struct problem *why);

/* NULL is allowed. */
void resolve_end(struct resolve *resolve);

#endif

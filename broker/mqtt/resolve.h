/*
 * resolve.h - looks up the addresses of a host's name without blocking.
 *
 * The C library's look-up blocks, for half a minute if a name server is silent,
 * and cannot be cancelled. So a thread of its own makes it. A caller that no
 * longer wants the answer calls resolve_end, and the thread ends when it can.
 */
#ifndef BROKER_MQTT_RESOLVE_H
#define BROKER_MQTT_RESOLVE_H

#include <stddef.h>

#include "proto/problem.h"
#include "proto/status.h"

/* The most addresses that are tried. */
#define RESOLVE_MAX 8

struct resolve;

struct resolve_answer {
    char addresses[RESOLVE_MAX][128]; /* "127.0.0.1", "fe80::1%eth0"; to be
                                         tried in this order */
    size_t n;                         /* at least 1 */
};

/* Begins a look-up. `host` is a name or an address. */
MUST_CHECK enum status resolve_begin(struct resolve **resolve, const char *host,
                                     struct problem *why);

/* A descriptor that becomes readable when there is an answer. Lent. */
int resolve_fd(const struct resolve *resolve);

/* Returns the answer. STATUS_RUNNING: not yet; STATUS_NOT_FOUND: no address,
 * for the reason in `why`. */
MUST_CHECK enum status resolve_take(struct resolve *resolve,
                                    struct resolve_answer *answer,
                                    struct problem *why);

/* Gives up the look-up, or frees it. NULL is allowed. */
void resolve_end(struct resolve *resolve);

#endif

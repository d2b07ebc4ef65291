/*
 * lookup.h - looks up the addresses of host names, without blocking the thread
 * that asks.
 *
 * The C library's look-up blocks, for half a minute if a name server is silent,
 * and cannot be cancelled. So threads of their own make the look-ups, at most
 * LOOKUP_THREADS_MAX, which end when no name waits. Several look-ups of one
 * name are one question. The answers are kept for a while, for askers who
 * accept an earlier one.
 *
 *     lookup_begin --> true: the answer is there
 *          |
 *        false --> [a thread asks] --> box->wake --> lookup_take
 *
 * Doubtful look-ups (of names that a stranger has chosen) use at most half of
 * the threads. So name servers that hang on purpose leave room for the others
 * (W-092).
 *
 * The process has one set of threads. Any thread; a box and its look-ups belong
 * to one thread.
 */
#pragma once

#include <netinet/in.h>

#include "base/list.h"

#define LOOKUP_THREADS_MAX   256
#define LOOKUP_ADDRESSES_MAX 8

/* Answers that are kept. */
#define LOOKUP_KEPT_MAX 1024

union lookup_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct lookup_answer {
    int error;  /* EAI_...; 0: success */
    unsigned n; /* then at least 1 */
    union lookup_address addresses[LOOKUP_ADDRESSES_MAX]; /* to be tried in this
                                                             order; port 0 */
};

/* Asks the C library at once, with flags of getaddrinfo. This may block, but
 * not with AI_NUMERICHOST: that asks no name server. */
void lookup_addresses(const char *host, int flags,
                      struct lookup_answer *answer);

/* The port of an address, in network order. */
static inline in_port_t *
lookup_port(union lookup_address *address)
{
    return address->any.sa_family == AF_INET6 ? &address->v6.sin6_port
                                              : &address->v4.sin_port;
}

/* Where the answers of an asker arrive. */
struct lookup_box {
    struct list answered;
    bool is_woken;

    /* Called on another thread when a first answer has arrived, and then only
     * after lookup_take has returned NULL. Must not block. */
    void (*wake)(void *user);
    void *user;
};

/* A look-up; a member of its owner's struct. Before its first use: lookup_init.
 */
struct lookup {
    struct lookup_answer answer; /* once it is there */

    /* Of lookup.c. */
    struct list node;
    struct lookup_box *box;
    struct name *name;
};

void lookup_box_init(struct lookup_box *box, void (*wake)(void *user),
                     void *user);
void lookup_init(struct lookup *l);

struct lookup_wish {
    const char *host;   /* a name, or an address without brackets */
    int64_t max_age_us; /* accepts an answer of another look-up that is no
                           older */
    bool is_doubtful;
};

/* Begins a look-up. True: the answer is there at once, as that of an address.
 * False: it arrives in the box. */
bool lookup_begin(struct lookup *l, struct lookup_box *box,
                  const struct lookup_wish *wish);

/* Takes a look-up with an answer out of the box; NULL: there is none. */
struct lookup *lookup_take(struct lookup_box *box);

/* Leaves a look-up, in whatever state: it does not arrive any more. */
void lookup_cancel(struct lookup *l);

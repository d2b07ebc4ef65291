/*
 * subscriber.h - a connection that counts arriving entries: a WebSocket, or a
 * subscription to a peer (protocol.h).
 *
 * An entry is counted wherever it appears (publisher.h describes its mark), so
 * a server may put one or many into a message, in any form.
 */
#ifndef TESTS_BENCH_SUBSCRIBER_H
#define TESTS_BENCH_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/bench/histogram.h"
#include "tests/bench/protocol.h"

/* Connections over which is published; more would cost each subscriber more. */
#define SUBSCRIBER_PUBLISHERS_MAX 8

/* The receipts of a group of subscribers. */
struct receipts {
    uint64_t entries;
    uint64_t messages; /* of WebSockets only */
    uint64_t
        reads; /* recv() that brought some: about one send() of the server */
    uint64_t bytes;
    uint64_t repeated;       /* entries that had come before; not counted */
    struct histogram *delay; /* from post to receipt; NULL: not kept */
};

/* Bytes of an incomplete message. */
struct rest {
    char *data;
    size_t size, capacity;
};

struct subscriber {
    int fd; /* -1: it is closed */
    bool is_websocket;
    struct rest frame;   /* or, of a peer, an entry that is not whole */
    struct rest message; /* its fragments so far */
    uint64_t
        next[SUBSCRIBER_PUBLISHERS_MAX]; /* by publisher: the next number */
    uint64_t received;                   /* entries, since it was set to 0 */
    struct receipts *receipts;
};

/* Connects and subscribes; `subprotocol`, of WebSockets, may be NULL.
 * `is_narrow`: with a small
 * receive buffer, so that the server soon gets stuck if the subscriber does not
 * read. */
void subscriber_open(struct subscriber *s, unsigned port,
                     const struct protocol *protocol, const char *subprotocol,
                     bool is_narrow, struct receipts *receipts);
void subscriber_close(struct subscriber *s);

/* Reads the available bytes; false: the server has closed it, and so has
 * this. */
bool subscriber_read(struct subscriber *s);

#endif

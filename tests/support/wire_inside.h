/*
 * wire_inside.h - what wire.c (connections, bytes) and wire_http.c (HTTP,
 * WebSocket) share. For these two only.
 */
#ifndef TESTS_SUPPORT_WIRE_INSIDE_H
#define TESTS_SUPPORT_WIRE_INSIDE_H

#include <stdint.h>

#include <openssl/ssl.h>

#include "tests/support/wire.h"

/* Longest body or message that is read. */
#define BODY_MAX ((size_t)256 << 20)

struct wire {
    int fd;
    SSL *ssl; /* NULL: plain */
    unsigned n_records;
    int wait_ms;
    char host[128];  /* as a Host header names the peer */
    size_t from, to; /* received and not yet taken */
    char buffer[65536];
    char *body; /* of the last answer or frame */
};

/* When the wait that begins now is over, on the monotonic clock. */
int64_t wire_end_ms(const struct wire *w);

/* Exactly `size` bytes, until then. */
bool wire_read_until(struct wire *w, void *to, size_t size, int64_t end_ms);

/* Makes room in w->body for `size` bytes and a terminator; NULL: too many. */
char *wire_room(struct wire *w, size_t size);

#endif

/*
 * source.h - a source of changes for a test: posts them, reads the receipt.
 *
 * Entry N of source_post is "created" and called http://example.com/r/N.
 */
#ifndef TESTS_SUPPORT_SOURCE_H
#define TESTS_SUPPORT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/slice.h"
#include "tests/support/http.h"

struct receipt {
    char set[65];
    uint64_t first;
    uint64_t last;
    char position[64];
    char datetime[33];
};

/* Posts `n` entries from number `from` on. Fails the test if they are not
 * accepted. */
struct receipt source_post(struct http *h, const char *set, unsigned from,
                           size_t n);

/* Posts a document; returns the status. With 200, *receipt (may be NULL) is
 * filled and checked against the answer's own facts. */
long source_send(struct http *h, const char *set, const char *type,
                 struct slice body, struct receipt *receipt);

#endif

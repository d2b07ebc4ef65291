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

/* Appends `n` entries from number `from` on, as a JSON array. An entry is made
 * at least `entry_size` bytes long, by foreign attributes of `entry_size` 'x';
 * 0: as short as it comes. */
void source_entries(struct buf *to, unsigned from, size_t n, size_t entry_size);

/* Posts what source_entries makes. Fails the test if it is not accepted. */
struct receipt source_post(struct http *h, const char *set, unsigned from,
                           size_t n, size_t entry_size);

/* Posts a document; returns the status. With 200, *receipt (may be NULL) is
 * filled and checked against the answer's own facts. */
long source_send(struct http *h, const char *set, const char *type,
                 struct slice body, struct receipt *receipt);

/* Closes the open list; fails the test if there was nothing to close. */
void source_rotate(struct http *h, const char *set);

/* Posts the file of tests/spec/examples; returns the status. */
long source_send_file(struct http *h, const char *set, const char *name);

#endif

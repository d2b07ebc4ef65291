/*
 * partial.h - the note beside an incomplete file: which download it belongs to.
 *
 *     NAME       the first bytes of the representation
 *     NAME.of    https://example.org/a.bin
 *                "5f3e-17"                     its ETag, else its Last-Modified
 *                sha-256:9f86d081...           its digest in the entry
 *                1048576                       its length; empty: unknown
 *
 * A note that is torn, or of another request, is ignored: the file begins anew.
 */
#ifndef CLIENT_DUMPS_PARTIAL_H
#define CLIENT_DUMPS_PARTIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

/* A smaller file is not worth a note. */
#define PARTIAL_KEPT_MIN (1024 * 1024)

#define PARTIAL_VALIDATOR_MAX 256

struct partial {
    char *url;
    char *hash;
    uint64_t length;                       /* or LENGTH_NONE */
    char validator[PARTIAL_VALIDATOR_MAX]; /* "": none */
};

/* Copies its arguments. False: no memory. */
bool partial_init(struct partial *partial, const char *url, struct slice hash,
                  uint64_t length);
void partial_fini(struct partial *partial);

/* Stores the validator for If-Range (RFC 9110 section 13.1.5): no weak ETag. */
void partial_validate(struct partial *partial, const char *etag,
                      const char *last_modified);

/* Writes the note of `file`. False: it cannot, or no validator is known. */
bool partial_write(const struct partial *partial, int dir_fd, const char *file);

/* True if `file` has a note of the same request; takes the note's validator. */
bool partial_read(struct partial *partial, int dir_fd, const char *file);

/* True if `file` has any note. */
bool partial_is_there(int dir_fd, const char *file);

/* Removes the note. */
void partial_forget(int dir_fd, const char *file);

#endif

/*
 * partial.h - a note beside a file that is not whole yet: what it is a part of.
 *
 *     NAME       the first bytes of the representation
 *     NAME.of    https://example.org/a.bin
 *                "5f3e-17"                     its ETag, else its Last-Modified
 *                sha-256:9f86d081...           what was told of it
 *                1048576                       its length; empty: untold
 *
 * A note that is torn, or of another wish, says nothing: the file begins anew.
 */
#ifndef CLIENT_DUMPS_PARTIAL_H
#define CLIENT_DUMPS_PARTIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

/* Less is not worth a second file. */
#define PARTIAL_KEPT_MIN (1024 * 1024)

#define PARTIAL_VALIDATOR_MAX 256

struct partial {
    char *url;
    char *hash;
    uint64_t length;                       /* or LENGTH_NONE */
    char validator[PARTIAL_VALIDATOR_MAX]; /* "": none */
};

/* A copy; false: no memory. */
bool partial_init(struct partial *partial, const char *url, struct slice hash,
                  uint64_t length);
void partial_fini(struct partial *partial);

/* Takes what If-Range may compare (RFC 9110 section 13.1.5): no weak ETag. */
void partial_validate(struct partial *partial, const char *etag,
                      const char *last_modified);

/* Writes the note of `file`; false: it cannot, or there is no validator. */
bool partial_write(const struct partial *partial, int dir_fd, const char *file);

/* Is there a note of `file` that tells of the same wish? Takes its validator.
 */
bool partial_read(struct partial *partial, int dir_fd, const char *file);

/* Is there a note of `file`, whatever it tells? */
bool partial_is_there(int dir_fd, const char *file);

/* Removes the note. */
void partial_forget(int dir_fd, const char *file);

#endif

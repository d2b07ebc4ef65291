/*
 * resume_note.h - the note beside an incomplete file: which download it belongs
 * to.
 *
 *     NAME       the first bytes of the representation
 *     NAME.of    https://example.org/a.bin
 *                "5f3e-17"                     its ETag, else its Last-Modified
 *                sha-256:9f86d081...           its digest in the entry
 *                1048576                       its length; empty: unknown
 *
 * A note that is torn, or of another request, is ignored: the file begins anew.
 */
#ifndef CLIENT_DUMPS_RESUME_NOTE_H
#define CLIENT_DUMPS_RESUME_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

/* A smaller file is not worth a note. */
#define RESUME_NOTE_KEPT_MIN (1024 * 1024)

#define RESUME_NOTE_VALIDATOR_MAX 256

struct resume_note {
    char *url;
    char *hash;
    uint64_t length;                           /* or LENGTH_NONE */
    char validator[RESUME_NOTE_VALIDATOR_MAX]; /* "": none */
};

/* Copies its arguments. False: no memory. */
bool resume_note_init(struct resume_note *partial, const char *url,
                      struct slice hash, uint64_t length);
void resume_note_fini(struct resume_note *partial);

/* Stores the validator for If-Range (RFC 9110 section 13.1.5): no weak ETag. */
void resume_note_validate(struct resume_note *partial, const char *etag,
                          const char *last_modified);

/* Writes the note of `file`. False: it cannot, or no validator is known. */
bool resume_note_write(const struct resume_note *partial, int dir_fd,
                       const char *file);

/* True if `file` has a note of the same request; takes the note's validator. */
bool resume_note_read(struct resume_note *partial, int dir_fd,
                      const char *file);

/* True if `file` has any note. */
bool resume_note_is_there(int dir_fd, const char *file);

/* Removes the note. */
void resume_note_forget(int dir_fd, const char *file);

#endif

/*
 * kept.h - bytes of a test's own: short texts with numbers, as a set keeps
 * them.
 *
 * The bytes of text `n` are "bytes of N\n", for N below KEPT_MAX.
 */
#ifndef TESTS_SUPPORT_KEPT_H
#define TESTS_SUPPORT_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/resourcesync/digest.h"

#define KEPT_MAX 10000

/* Room for one, and for its `hash`. */
#define KEPT_SIZE 32

void kept_text(char to[KEPT_SIZE], unsigned n);
uint64_t kept_length(unsigned n);
void kept_digest(struct digest *digest, unsigned n);

/* "sha-256:..." */
void kept_hash(char to[DIGEST_TEXT_SIZE + 1], unsigned n);

/* Its path below the directory of its set: "content/ab/HEX". */
#define KEPT_PATH_SIZE 80
void kept_path(char to[KEPT_PATH_SIZE], unsigned n);

/* Places it, as something that has arrived in `arriving` would be. */
void kept_place(const char *set_dir, const char *arriving, unsigned n);

/* Is it there, with the bytes that its name says? */
bool kept_is_there(const char *set_dir, unsigned n);

#endif

/*
 * position.h - a place in the log of a set: "epoch-seq".
 */
#ifndef PROTO_POSITION_H
#define PROTO_POSITION_H

#include <stdint.h>

#include "proto/slice.h"
#include "proto/status.h"

/* An epoch is 16 lower-case hexadecimal digits. */
#define EPOCH_SIZE 16

/* "0123456789abcdef-18446744073709551615" and a NUL. */
#define POSITION_MAX (EPOCH_SIZE + 1 + 20 + 1)

struct position {
    char epoch[EPOCH_SIZE + 1]; /* "" if only a seq was given */
    uint64_t seq;
};

bool epoch_is_valid(struct slice text);

/* Reads "epoch-seq" or a plain seq. STATUS_MALFORMED: neither. */
MUST_CHECK enum status position_read(struct slice text, struct position *p);

/* Writes "epoch-seq", NUL-terminated, and returns its size without the NUL. */
size_t position_write(char to[POSITION_MAX], const char *epoch, uint64_t seq);

#endif

/*
 * position.h - a place in the log of a set, "epoch-seq", and a part of the log.
 */
#pragma once

#include "proto/datetime.h"
#include "proto/resourcesync/digest.h"
#include "proto/uri.h"

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

/* Writes "epoch-seq", NUL-terminated, and returns its size without the NUL.
 * `epoch`: or what begins with it, as another position. */
size_t position_write(char to[POSITION_MAX], const char *epoch, uint64_t seq);

/* The part of a set's log that a document or message stands for. All of it is a
 * function of the two seqs, so two parties that meet in a seq meet in time and
 * digest too. Only a heartbeat also carries the clock. */
struct coverage {
    char set[SET_NAME_MAX + 1];   /* "" in XML documents */
    char epoch[EPOCH_SIZE + 1];   /* "" if the document has none */
    char follows[EPOCH_SIZE + 1]; /* of the first Change List of an epoch: the
                                     one before, up to `after`; else "" */
    uint64_t after;               /* the entries after this one ... */
    uint64_t last;                /* ... up to this one */
    int64_t from_us;              /* T(after), or DATETIME_NONE */
    int64_t until_us;             /* T(last), or DATETIME_NONE */
    bool has_digest;
    struct digest digest; /* d(last) */
    struct digest before; /* d(after), of pages of change memory alone */
    int64_t now_us;       /* heartbeats: the clock; else DATETIME_NONE */
    int64_t heartbeat_us; /* heartbeats: the interval; else 0 */
};

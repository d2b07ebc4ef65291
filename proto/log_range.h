/*
 * log_range.h - which part of a set's log a document or message stands for.
 *
 * All of it is a function of the two seqs, so two parties that meet in a seq
 * meet in time and digest too. Only a heartbeat also carries the clock.
 */
#ifndef PROTO_LOG_RANGE_H
#define PROTO_LOG_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/datetime.h"
#include "proto/digest.h"
#include "proto/position.h"
#include "proto/uri.h"

struct coverage {
    char set[SET_NAME_MAX + 1]; /* "" in XML documents */
    char epoch[EPOCH_SIZE + 1]; /* "" if the document has none */
    uint64_t after;             /* the entries after this one ... */
    uint64_t last;              /* ... up to this one */
    int64_t from_us;            /* T(after), or DATETIME_NONE */
    int64_t until_us;           /* T(last), or DATETIME_NONE */
    bool has_digest;
    struct digest digest; /* d(last) */
    int64_t now_us;       /* heartbeats: the clock; else DATETIME_NONE */
    int64_t heartbeat_us; /* heartbeats: the interval; else 0 */
};

#endif

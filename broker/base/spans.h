/*
 * spans.h - spans of traces, on their way to a collector (--otlp).
 *
 *     if (spans_are_wanted(traceparent))    one branch, while there is none
 *         ... spans_add(&span)
 *
 * A span is of a post, from its head to its commit, or of a try to deliver
 * something. Only a trace that its beginner samples gets spans. Any thread adds
 * without a lock; broker/calls/span_export.h takes them. Spans over SPANS_MAX
 * that wait are dropped, and counted.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/resourcesync/position.h"
#include "proto/resourcesync/traceparent.h"

#define SPANS_MAX 4096

enum span_kind { SPAN_POST, SPAN_DELIVERY };

struct span {
    struct span *next;
    enum span_kind kind;
    char traceparent[TRACEPARENT_SIZE]; /* of its parent */
    char set[SET_NAME_MAX + 1];
    uint64_t first, last;     /* seqs */
    int64_t begin_us, end_us; /* wall clock */
    unsigned status;          /* of HTTP; 0: there was no answer */
};

/* True between spans_open and spans_close. Relaxed: it stands alone. */
extern atomic_bool spans_are_open;

/* True if spans of that trace are to be added. An invalid one, as an empty one,
 * is none. */
static inline bool
spans_are_wanted(struct slice traceparent)
{
    return load_relaxed(&spans_are_open) && traceparent_is_valid(traceparent) &&
           traceparent_is_sampled(traceparent);
}

/* Adds a copy. */
void spans_add(const struct span *span);

/* Takes all, the oldest first, linked by `next`; the caller frees each. NULL:
 * there are none. */
struct span *spans_take(void);

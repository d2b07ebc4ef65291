/*
 * traceparent.h - where an event belongs in a distributed trace (W3C Trace
 * Context): the field of a post, and an attribute of its entries.
 *
 *     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *     version, trace, parent (a span), flags; bit 0: sampled
 *
 * A value that is not of this form counts as none, as the standard demands. A
 * later version may have more behind it, and of the flags only bit 0 is known:
 * it is written as version 00.
 */
#pragma once

#include "proto/slice.h"

#define TRACEPARENT_SIZE 55

/* Where trace and parent begin, and how long they are. */
#define TRACE_AT    3
#define TRACE_SIZE  32
#define PARENT_AT   36
#define PARENT_SIZE 16

/* True for version 00, and for what later ones begin with. */
static inline bool
traceparent_is_valid(struct slice text)
{
    static const char form[] = "vv-tttttttttttttttttttttttttttttttt-"
                               "pppppppppppppppp-ff";
    bool has_trace = false, has_parent = false;

    if (text.size < TRACEPARENT_SIZE || slice_starts(text, "ff") ||
        (text.size > TRACEPARENT_SIZE &&
         (slice_starts(text, "00") || text.data[TRACEPARENT_SIZE] != '-')))
        return false;
    for (size_t i = 0; i < TRACEPARENT_SIZE; i++) {
        char c = text.data[i];
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

        if (form[i] == '-' ? c != form[i] : !is_digit)
            return false;
        has_trace |= form[i] == 't' && c != '0';
        has_parent |= form[i] == 'p' && c != '0';
    }
    return has_trace && has_parent;
}

/* True if whoever began the trace records it. `text` is valid. */
static inline bool
traceparent_is_sampled(struct slice text)
{
    char c = text.data[TRACEPARENT_SIZE - 1];

    return (c <= '9' ? c - '0' : c - 'a' + 10) & 1;
}

/* Writes a valid one as version 00. */
static inline void
traceparent_write(char to[TRACEPARENT_SIZE], struct slice text)
{
    memcpy(to, text.data, TRACEPARENT_SIZE);
    if (!slice_starts(text, "00"))
        memcpy(to + TRACEPARENT_SIZE - 2,
               traceparent_is_sampled(text) ? "01" : "00", 2);
    memcpy(to, "00", 2);
}

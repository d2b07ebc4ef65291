/*
 * sse.h - server-sent events, read as they arrive (HTML, section 9.2.6).
 *
 *     retry: 2417
 *
 *     id: 9f2c5b7d01e4a683-4
 *     event: changes
 *     data: {"set":"demo",...}
 *
 * Lines end with CR LF, LF or CR; an event ends with an empty line, and what
 * was cut off before it counts for nothing. A byte order mark at the beginning,
 * comments and fields of other names are passed over.
 *
 *     while (!(rc = sse_read(&sse, &bytes, &event, &why)))
 *         ... event ...
 *     if (rc != STATUS_AGAIN)
 *         ... it is no stream of events ...
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* Longest value of a field other than data, in bytes: those of Tidings have 50,
 * except the ids of streams of many sets. The reader ignores a longer id. */
#define SSE_VALUE_MAX 255

/* Longest time to wait that is taken from a server: an hour. */
#define SSE_RETRY_MAX 3600000

struct sse_value {
    char text[SSE_VALUE_MAX];
    size_t size;
};

/* One event; lent until the next call for the same reader. */
struct sse_event {
    struct slice name; /* "message" where none was given */
    struct slice id;   /* of this event or, where it has none, of the last one
                          that had; empty: none had */
    char *data;        /* the reader's, but may be changed; not terminated */
    size_t size;
};

struct sse {
    unsigned retry_ms; /* when to connect again; 0: unknown */

    /* Its own: */
    int state;
    unsigned bom;     /* bytes of a byte order mark seen */
    bool is_after_cr; /* a line feed that comes next belongs to it */
    bool is_given;    /* an event was handed over, and is still there */
    bool has_data;
    struct sse_value field; /* the name of this line's */
    struct sse_value value; /* of this line, unless it is data */
    struct sse_value name, id;
    struct buf data;
};

/* `data_max`: longest data of an event, in bytes. */
void sse_init(struct sse *s, size_t data_max);
void sse_fini(struct sse *s);

/* Takes bytes off the front of `*bytes` up to the end of an event.
 * STATUS_AGAIN: all were taken, and there is none yet. STATUS_TOO_LARGE: a
 * name or the data of an event is longer than it may be; STATUS_MEMORY.
 * After another status than these first two it must not be called again. */
MUST_CHECK enum status sse_read(struct sse *s, struct slice *bytes,
                                struct sse_event *event, struct problem *why);

/* Bytes that are there of the data of an event that has not ended: comments
 * and other fields add none. */
static inline size_t
sse_data_size(const struct sse *s)
{
    return s->is_given ? 0 : s->data.size;
}

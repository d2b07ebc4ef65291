/*
 * events.h - an EventSource of a test, by raw bytes, that looks at everything
 * it gets.
 *
 *     struct events e;
 *
 *     events_open(&e, b.port, "/sets/news/stream", NULL);
 *     events_next(&e);                       the first is a heartbeat
 *     source_post(&h, "news", 1, 3, 0);
 *     assert_int_equal(events_next(&e)->last, 3);
 *     events_again(&e);                      with Last-Event-ID, as browsers do
 *     events_close(&e);
 *
 * Every chunk and every line is checked as it comes, every message by itself
 * (notice_check), against its `id`, and against the one before, also of the
 * connection before (notice_check_chain).
 */
#ifndef TESTS_SUPPORT_EVENTS_H
#define TESTS_SUPPORT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/notice.h"
#include "tests/support/wire.h"
#include "tests/test.h"

/* Most bytes of one chunk, with what is around it. */
#define EVENTS_CHUNK_MAX 65536

struct events {
    unsigned port;
    char path[200];
    bool is_narrow, is_1_0;
    bool is_filtered; /* the path asks for some entries only */
    struct wire *wire;
    struct wire_answer answer;
    size_t chunk_left; /* bytes of the chunk at hand */
    bool is_whole;     /* ended with the last chunk */

    /* The last event. */
    char name[32];
    struct buf data;
    char last_id[64]; /* as HTML says: of the last event that had one */
    unsigned retry_ms;

    struct notice notice; /* of the last message */
    bool has_notice;
};

/* Connects; `last_id` NULL sends none. Fails the test if the answer is not an
 * event stream. */
void events_open(struct events *e, unsigned port, const char *path,
                 const char *last_id);

/* The same with a small receive buffer; and by HTTP/1.0. */
void events_open_narrow(struct events *e, unsigned port, const char *path);
void events_open_1_0(struct events *e, unsigned port, const char *path);
void events_close(struct events *e);

/* Leaves, politely or not, and connects again with the last id. */
void events_again(struct events *e, bool is_abort);

/* The next event, of any name; false: the answer has ended, and e->is_whole
 * says how. */
bool events_read(struct events *e);

/* The next message, lent until the next call. Fails the test if none comes. */
const struct notice *events_next(struct events *e);

/* Goes on until a message ends at `last`; fails the test if one goes beyond. */
void events_until(struct events *e, uint64_t last);

/* Reads to the end of the answer, which is whole; its last event has that name,
 * and its data are terminated. Fails the test if not. */
void events_end(struct events *e, const char *name);

#endif

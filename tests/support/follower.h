/*
 * follower.h - a subscriber of a test, by WebSocket and raw bytes, that looks
 * at everything it gets.
 *
 *     struct follower f;
 *
 *     follower_open(&f, b.port, "/sets/news/stream", "resourcesync.xml");
 *     follower_next(&f);                     the first is a heartbeat
 *     source_post(&h, "news", 1, 3, 0);
 *     assert_int_equal(follower_next(&f)->last, 3);
 *     follower_close(&f);
 *
 * Every message is checked as it comes: by itself (notice_check), against the
 * one before (notice_check_chain), and for the sizes of its frames.
 */
#ifndef TESTS_SUPPORT_FOLLOWER_H
#define TESTS_SUPPORT_FOLLOWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/notice.h"
#include "tests/support/wire.h"
#include "tests/test.h"

/* Most bytes of one WebSocket frame, its header included. */
#define FOLLOWER_FRAME_MAX 65536

struct follower {
    struct wire *wire;
    enum notice_form form;
    bool is_filtered;     /* the path asks for some entries only */
    struct buf text;      /* the last message as it came */
    struct notice notice; /* and what it says */
    bool has_notice;
    size_t n_frames;     /* of the last message */
    size_t n_messages;   /* with entries, so far */
    unsigned close_code; /* of the close frame; 0: none came */
    char close_reason[WIRE_CONTROL_MAX + 1];
};

/* Connects. `subprotocol` NULL asks for none and gets JSON. Fails the test if
 * the answer is not 101 with that subprotocol. */
void follower_open(struct follower *f, unsigned port, const char *path,
                   const char *subprotocol);

/* The same with a small receive buffer. */
void follower_open_narrow(struct follower *f, unsigned port, const char *path,
                          const char *subprotocol);

/* Over TLS. */
void follower_open_tls(struct follower *f, unsigned port, const char *path,
                       const char *subprotocol);
void follower_close(struct follower *f);

/* The next message, lent until the next call. Fails the test if none comes. */
const struct notice *follower_next(struct follower *f);

/* The next one with entries. */
const struct notice *follower_news(struct follower *f);

/* Goes on until a message ends at `last`; fails the test if one goes beyond. */
void follower_until(struct follower *f, uint64_t last);

/* Reads on until the broker closes; fails the test if it does not, or not with
 * `code`. */
void follower_expect_close(struct follower *f, unsigned code);

#endif

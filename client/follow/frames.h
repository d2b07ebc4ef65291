/*
 * frames.h - what flows on a WebSocket that stands, from the client's side:
 * bytes in, messages out (RFC 6455 section 5), by wslay.
 *
 *     read --> wslay --> messages that are whole --> frames_next
 *     write <--  |  <--- pongs, the answer to a close
 *                +-----> the end: farewell, broken rules, too long a message
 *
 * Pings are answered here. Messages are in text.
 */
#ifndef CLIENT_FOLLOW_FRAMES_H
#define CLIENT_FOLLOW_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/follow/live.h"

struct frames;

/* How many bytes were taken or given; 0: not now; -1: the connection is over.
 */
typedef ssize_t frames_read_fn(void *to, size_t size, void *user);
typedef ssize_t frames_write_fn(const void *from, size_t size, void *user);

/* NULL: no memory. */
struct frames *frames_new(frames_read_fn *read, frames_write_fn *write,
                          void *user);
void frames_free(struct frames *f); /* NULL is allowed */

enum frames_next {
    FRAMES_MESSAGE, /* `*bytes`, lent until the next call; may be changed */
    FRAMES_DRY,     /* nothing more now */
    FRAMES_OVER     /* frames_end says why; all before it was handed over */
};

/* Reads on, and writes what is to be written. */
enum frames_next frames_next(struct frames *f, char **bytes, size_t *size);

/* What the connection has to be ready for: READY_READ, READY_WRITE. */
int frames_wants(const struct frames *f);

/* LIVE_CLOSED, LIVE_BROKEN, LIVE_LOST or LIVE_MEMORY, the code and the reason.
 */
const struct live_end *frames_end(const struct frames *f);

/* Bytes of messages that came so far, whole or not: pings add none. */
uint64_t frames_n_data(const struct frames *f);

/* Did anything come at all? */
bool frames_is_used(const struct frames *f);

#endif

/*
 * websocket_frames.h - the client's side of an established WebSocket: bytes in,
 * messages out (RFC 6455 section 5), by wslay.
 *
 *     read --> wslay --> whole messages --> frames_next
 *     write <--  |  <--- pongs, the answer to a close
 *                +-----> the end: farewell, broken rules, too long a message
 *
 * It answers pings. Messages are text.
 */
#ifndef CLIENT_FOLLOW_WEBSOCKET_FRAMES_H
#define CLIENT_FOLLOW_WEBSOCKET_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/follow/live_connection.h"

struct frames;

/* Return the number of bytes read or written; 0: none now; -1: the connection
 * is over. */
typedef ssize_t frames_read_fn(void *to, size_t size, void *user);
typedef ssize_t frames_write_fn(const void *from, size_t size, void *user);

/* NULL: no memory. */
struct frames *frames_new(frames_read_fn *read, frames_write_fn *write,
                          void *user);
void frames_free(struct frames *f); /* NULL is allowed */

enum frames_next {
    FRAMES_MESSAGE, /* `*bytes`, lent until the next call; may be changed */
    FRAMES_DRY,     /* nothing more now */
    FRAMES_OVER     /* frames_end says why; no message is left */
};

/* Reads, and writes pending frames. */
enum frames_next frames_next(struct frames *f, char **bytes, size_t *size);

/* Queues a message, to be written by frames_next; copies it. False: no memory,
 * or the server leaves too much unread. */
bool frames_send(struct frames *f, struct slice text);

/* The events to wait for: READY_READ, READY_WRITE. */
int frames_wants(const struct frames *f);

/* LIVE_CLOSED, LIVE_BROKEN, LIVE_LOST or LIVE_MEMORY, the code and the reason.
 */
const struct live_end *frames_end(const struct frames *f);

/* Bytes of messages so far, complete or not: pings do not count. */
uint64_t frames_n_data(const struct frames *f);

/* True if any byte has come. */
bool frames_is_used(const struct frames *f);

#endif

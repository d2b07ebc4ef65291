/*
 * websocket.h - messages as WebSocket frames.
 *
 * A message goes out as one WebSocket message of frames of at most
 * STREAM_FRAME_MAX bytes, headers included: so a client that reads slowly
 * leaves at most one frame's rest in the library's memory, and pings can cut
 * in. All frames but the last have exactly that size, so that a place in the
 * bytes tells which frame it is in.
 */
#ifndef BROKER_PUSH_WEBSOCKET_H
#define BROKER_PUSH_WEBSOCKET_H

#include "proto/buf.h"
#include "proto/slice.h"

/* Appends the frames of `message`, one after the other. */
void websocket_wrap(struct buf *to, struct slice message);

/* The frame that begins at `offset`, a sum of sizes of frames before. */
struct slice websocket_frame_at(struct slice frames, size_t offset);

#endif

/*
 * websocket.h - messages as WebSocket frames.
 *
 * A message goes out as one WebSocket message in frames of at most
 * STREAM_FRAME_MAX bytes, headers included. So a client that reads slowly
 * leaves at most the rest of one frame in the connection's memory, and pongs
 * can go between frames.
 */
#pragma once

#include "broker/push/transports.h"

/* Appends a message, compressed by `deflater` (lent) unless that is NULL;
 * transports_piece cuts the bytes into the pieces that may be written at once.
 * A close frame may stand between them. */
void websocket_wrap(struct buf *to, const struct message *message,
                    struct deflater *deflater);

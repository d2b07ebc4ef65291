/*
 * websocket.h - messages as WebSocket frames.
 *
 * A message goes out as one WebSocket message in frames of at most
 * STREAM_FRAME_MAX bytes, headers included. So a client that reads slowly
 * leaves at most the rest of one frame in the connection's memory, and pongs
 * can go between frames.
 */
#ifndef BROKER_PUSH_WEBSOCKET_H
#define BROKER_PUSH_WEBSOCKET_H

#include "broker/push/transports.h"

/* See struct transport; a close frame may stand between the frames of a
 * message. */
wrap_fn websocket_wrap;
close_fn websocket_close;
note_fn websocket_note;

#endif

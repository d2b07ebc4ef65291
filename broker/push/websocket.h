/*
 * websocket.h - messages as WebSocket frames.
 *
 * A message goes out as one WebSocket message of frames of at most
 * STREAM_FRAME_MAX bytes, headers included: so a client that reads slowly
 * leaves at most one frame's rest in the connection's memory, and pongs can
 * stand between them. All frames but the last have exactly that size, so that a
 * place in the bytes tells which frame it is in.
 */
#ifndef BROKER_PUSH_WEBSOCKET_H
#define BROKER_PUSH_WEBSOCKET_H

#include "broker/push/transports.h"

/* As struct transport says; a close frame may stand between the frames of a
 * message. */
accept_fn websocket_accept;
wrap_fn websocket_wrap;
wrap_fn websocket_wrap_deflated; /* for clients that agreed on RFC 7692 */
close_fn websocket_close;

#endif

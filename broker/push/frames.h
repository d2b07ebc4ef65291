/*
 * frames.h - messages as they go out: shared messages (shared_messages.h) in
 * the form of a transport.
 *
 * Only the log determines the bytes of a frame, so a subscriber that cannot
 * send for long may release it, and have it made again.
 */
#ifndef BROKER_PUSH_FRAMES_H
#define BROKER_PUSH_FRAMES_H

#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "broker/readers/shared_messages.h"
#include "proto/problem.h"
#include "proto/status.h"

/* The channel of a set on a transport. `deflater` is the service thread's, and
 * lent; it compresses what is made there, if the transport does. */
struct channel frame_channel(struct set *set, const struct transport *transport,
                             struct deflater *deflater);

/* Makes a frame: shared_calls.make. STATUS_AGAIN as by message_open, or because
 * the message is too large to compress on a service thread. */
MUST_CHECK enum status frame_make(struct shared_message *frame,
                                  enum log_patience patience,
                                  struct problem *why);

#endif

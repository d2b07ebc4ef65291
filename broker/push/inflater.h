/*
 * inflater.h - inflates a client's message (RFC 7692 section 7.2.2).
 *
 * Any thread.
 */
#ifndef BROKER_PUSH_INFLATER_H
#define BROKER_PUSH_INFLATER_H

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Appends the inflated message to `to`, whose maximum bounds it: 256 KB cost
 * less than a millisecond, however few bytes they were. STATUS_MALFORMED: not
 * deflated; STATUS_TOO_LARGE: the maximum; STATUS_MEMORY. */
MUST_CHECK enum status inflate_message(struct slice message, struct buf *to,
                                       struct problem *why);

#endif

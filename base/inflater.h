/*
 * inflater.h - inflates messages of WebSockets, one after the other (RFC 7692
 * section 7.2.2).
 *
 * Each message is deflated alone: no message needs an earlier one
 * (no_context_takeover), so one inflater serves all connections of its thread.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

struct inflater; /* 12 KB, and a copy of the longest message */

struct inflater *inflater_new(void);           /* NULL: no memory */
void inflater_free(struct inflater *inflater); /* NULL is allowed */

/* Appends the inflated message to `to`, whose maximum bounds it: 256 KB cost
 * less than a millisecond, however few bytes they were. STATUS_MALFORMED: not
 * deflated; STATUS_TOO_LARGE: the maximum; STATUS_MEMORY. */
MUST_CHECK enum status inflater_read(struct inflater *inflater,
                                     struct slice message, struct buf *to,
                                     struct problem *why);

/* The same, by an inflater of its own. */
MUST_CHECK enum status inflate_message(struct slice message, struct buf *to,
                                       struct problem *why);

/*
 * latest.h - the latest notification of a channel: what a receiver that keeps
 * up got last, and what the topic's address shows.
 *
 * Of changes it is what the last commit told (head.commit_after): who is at the
 * head gets that as one message, or, if it is more than a message has, as
 * several, of which this is the last. The store keeps with the last entry where
 * its commit began, so the bytes are the same after a restart (R-287, W-148).
 *
 * Of a framework channel it is what the last round that told something there
 * has told there. The log of framework events says so itself: the entries of a
 * round that have no times of their own follow each other by a microsecond
 * (stamping.c). Rounds without such a gap between them are taken for one, up to
 * LATEST_ROUND_MAX entries. The batches that hold them do not count: they
 * differ between memory, store and file.
 *
 * Any thread that may block.
 */
#ifndef BROKER_SETS_LATEST_H
#define BROKER_SETS_LATEST_H

#include "broker/sets/message.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* The most entries of a round that are looked back at: while the clock is
 * behind the log, no round has a gap before it. */
#define LATEST_ROUND_MAX 1024

/* Appends it: nothing, if nothing was ever told, or what was is no longer
 * retained. Of the wish count set, form, max_bytes, is_framework and is_plain.
 */
MUST_CHECK enum status latest_write(struct buf *to,
                                    const struct message_wish *wish,
                                    struct problem *why);

#endif

/*
 * latest.h - the latest notification of a channel: what a receiver that keeps
 * up got last, and what the topic's address shows.
 *
 * Of changes it is what the last commit told (head.commit_after): who is at the
 * head gets that as one message, or, if it is more than a message has, as
 * several, of which this is the last. After a restart the log knows where its
 * last batch begins, but not what was committed with it: then the latest
 * notification may be a smaller one, that ends at the same entry.
 *
 * Of a framework channel it is what the last round that told something there
 * has told there. The log of framework events says so itself: the entries of a
 * round that have no times of their own follow each other by a microsecond
 * (stamping.c). Rounds without such a gap between them are taken for one.
 *
 * Any thread that may block.
 */
#ifndef BROKER_SETS_LATEST_H
#define BROKER_SETS_LATEST_H

#include "broker/sets/message.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Appends it: nothing, if nothing was ever told, or what was is no longer
 * retained. Of the wish count set, form, max_bytes, is_framework and is_plain.
 */
MUST_CHECK enum status latest_write(struct buf *to,
                                    const struct message_wish *wish,
                                    struct problem *why);

#endif

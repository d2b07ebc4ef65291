/*
 * latest_message.h - the latest notification of a channel: the last message to
 * a receiver that keeps up, and the content of the topic's address.
 *
 * For changes it is the message of the last commit (head.commit_after), or the
 * last one if the commit needs several messages. The store keeps the beginning
 * of the commit with the last entry, so the bytes are the same after a restart
 * (R-287, W-148).
 *
 * For a framework channel it has the events of the last round with events for
 * that channel. The log of framework events shows the rounds: the entries of a
 * round without times of their own follow each other by a microsecond
 * (sequencer.c). Rounds without a gap between them count as one, up to
 * LATEST_MESSAGE_ROUND_MAX entries. Batches cannot show rounds: they differ
 * between memory, store and file.
 *
 * Any thread that may block.
 */
#pragma once

#include "broker/readers/message.h"

/* Most entries of a round: while the clock is behind the log, no round has a
 * gap before it. */
#define LATEST_MESSAGE_ROUND_MAX 1024

/* Appends the message; nothing if the channel never had one, or its entries are
 * no longer retained. Uses set, form, max_bytes and is_framework of the wish.
 */
MUST_CHECK enum status latest_message_write(struct buf *to,
                                            const struct message_wish *wish,
                                            struct problem *why);

/*
 * channel.h - which log a message is of, and what of it.
 *
 * The framework events of all sets are in one log; each entry has a tag that
 * says whom it concerns:
 *
 *   set:NAME   the set of that name, whichever it is now: its Capability List,
 *              its lists and archives
 *   source     all sets: the Source Description
 *
 * and the framework channel of a set is what passes a filter of its two tags.
 * The filter is made for each message, on the stack: a class of filters.h would
 * take the place of a reader's, and keep with each batch, for each set, that
 * most often nothing passes. To read one set's channel costs a look at all
 * sets' events, 50 ns each; there are few of them.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_CHANNEL_H
#define BROKER_SETS_CHANNEL_H

#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/message.h"
#include "proto/problem.h"
#include "proto/status.h"

#define CHANNEL_TAG_SET    "set:"
#define CHANNEL_TAG_SOURCE "source"

/* The log that a message of this wish is of. */
struct log_set *channel_log(const struct message_wish *wish);

/* Makes the class of the framework channel of the set of that name. It is
 * alone (filter_class_alone): the caller's memory, nothing to give back. */
MUST_CHECK enum status channel_filter(struct filter_class *class,
                                      const char *name, struct problem *why);

#endif

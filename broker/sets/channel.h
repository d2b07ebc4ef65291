/*
 * channel.h - the log of a set's messages, and the filter of their entries.
 *
 * The framework events of all sets are in one log; each entry has a tag that
 * names the sets concerned:
 *
 *   set:NAME the current set of that name: its Capability List, its lists and
 *   archives
 *   source     all sets: the Source Description
 *
 * and the framework channel of a set has the entries that pass a filter of its
 * two tags. Each message makes the filter on the stack: a class of filters.h
 * would take the place of a reader's, and store for each set with each batch
 * that usually nothing passes. Reading one set's channel looks at the events of
 * all sets, 50 ns each; there are few of them.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_CHANNEL_H
#define BROKER_SETS_CHANNEL_H

#include <stdbool.h>

#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

#define CHANNEL_TAG_SET    "set:"
#define CHANNEL_TAG_SOURCE "source"

/* Returns the log of the set's changes, or of its framework channel. */
struct log_set *channel_log(const struct set *set, bool is_framework);

/* Makes the class of the framework channel of the set of that name. It is alone
 * (filter_class_alone): in the caller's memory, with nothing to free. */
MUST_CHECK enum status channel_filter(struct filter_class *class,
                                      const char *name, struct problem *why);

#endif

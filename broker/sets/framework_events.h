/*
 * framework_events.h - framework events: announce changes of documents to
 * subscribers of a framework channel.
 *
 * Every event is an entry of one log, registry.framework, with a tag that names
 * the sets concerned:
 *
 *   set:NAME   the current set of that name: its Capability List, its lists and
 *              archives
 *   source     all sets: the Source Description
 *
 *   <url><loc>http://example.org/sets/demo/changes/000000000007.xml</loc>
 *   <rs:md change="updated" datetime="..." td:seq="42" capability="changelist"
 *   td:tags="set:demo"/><rs:ln rel="index" href=".../changelist.xml"/></url>
 *
 * The framework channel of a set has the entries that pass a filter of its two
 * tags. Each message makes the filter on the stack: a class of filters.h would
 * take the place of a reader's, and store for each set with each batch that
 * usually nothing passes. Reading one set's channel looks at the events of all
 * sets, 50 ns each; there are few of them.
 *
 * A commit of the log contains the events of its acts (log_options.on_acts):
 * closed lists and their successors, archives, lists and dumps that were built,
 * sets that begin and end, their descriptions, retired lists. A framework event
 * is published with the commit that it describes.
 *
 * Nothing is announced of a private set: the numbers of its events in the
 * common log would give it away. Its channel has those of the Source
 * alone.
 *
 *     log thread:   round's acts --> announcer_announce --> same transaction
 */
#pragma once

#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "proto/resourcesync/vocab.h"

struct registry;
struct set;

/* The log of the set's messages: its changes, or its framework channel. Any
 * thread. */
struct log_set *channel_log(const struct set *set, bool is_framework);

#define CHANNEL_TAG_SET    "set:"
#define CHANNEL_TAG_SOURCE "source"

/* Makes the class of the framework channel of the set of that name. It is alone
 * (filter_class_alone): in the caller's memory, with nothing to free. Any
 * thread. */
MUST_CHECK enum status channel_filter(struct filter_class *class,
                                      const char *name, struct problem *why);

/* The seq in the framework log of the last event on the set's channel, 0: none
 * since the broker started, one before that may be. It may be ahead of the
 * log's head for a moment. Any thread. */
uint64_t framework_event_last(const struct set *set);

/* True if the removal of the set was announced: framework_event_last is its
 * last event for ever. The set is gone a moment before;
 * registry_options.on_changed is called after both. Any thread. */
bool framework_event_is_over(const struct set *set);

/* Notes the seq that a search has found after framework_event_last returned 0.
 * For a set without events pass 1: that event is not retained, or not the
 * set's. Any thread. */
void framework_event_found(struct set *set, uint64_t seq);

/* Announces rounds of the log: registry_options.announcer. */
struct announcer;

struct announcer *announcer_new(void);

/* registry_options.on_followed: notes what another broker has announced with a
 * round, as if this broker had: so that this broker announces the next round as
 * the other one would. */
void announcer_follow(struct announcer *announcer, struct registry *registry,
                      const struct act *acts, size_t n);

/* Called once the sets of the start are loaded, before the first post. */
void announcer_begin(struct announcer *announcer, struct registry *registry);

/* NULL is allowed. After the registry is closed. */
void announcer_free(struct announcer *announcer);

/* registry_options.on_acts. */
MUST_CHECK enum status announcer_announce(struct announcer *announcer,
                                          struct registry *registry,
                                          const struct act *acts, size_t n,
                                          struct post **post);

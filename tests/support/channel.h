/*
 * channel.h - a set's framework channel as text, for tests: a line for an
 * event,
 *
 *     updated changelist /sets/a/changes/NUMBER.xml < /sets/a/changelist.xml
 *
 * and the index of its document, if any; URLs without SETS_URL.
 */
#ifndef TESTS_SUPPORT_CHANNEL_H
#define TESTS_SUPPORT_CHANNEL_H

#include <stdint.h>

#include "broker/sets/registry.h"
#include "proto/resourcesync/vocab.h"
#include "tests/support/sets.h"

/* An event of a test's own. */
struct event {
    enum change_kind change;
    enum capability capability; /* of the document */
    struct set *set;            /* its set; NULL: the Source */
    struct slice loc;
};

/* Adds `n` such events to the framework log, in one post. */
void channel_add(struct sets *s, const struct event *event, unsigned n);

/* Returns the seq of the last event of all channels, after the events of all
 * answered posts. */
uint64_t channel_last(struct sets *s);

/* The channel of `set` behind entry `after` of the framework log has these
 * lines, and no other; and its message is valid. */
#define assert_channel(s, set, after, lines) \
    channel_assert(s, set, after, lines, __FILE__, __LINE__)

void channel_assert(struct sets *s, struct set *set, uint64_t after,
                    const char *lines, const char *file, int line);

/* Appends the lines of the channel of `set` behind entry `after` of the
 * framework log. */
void channel_read(struct sets *s, struct set *set, uint64_t after,
                  struct buf *lines);

/* The lines of a notification, appended. */
void channel_lines(struct buf *to, struct slice message);

#endif

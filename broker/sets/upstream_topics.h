/*
 * upstream_topics.h - foreign topics and their owners: a topic belongs to one
 * set (its setting "upstreamTopic"), or to one relay (broker/hub).
 *
 *     upstreams_claim --> upstream_settle (of a set, when it is committed)
 *            \-----------------\--> upstream_release
 *
 * An owner claims a topic before the log stores it, so that of two claims at
 * the same time one fails. A set that gets new settings with its old topic
 * claims it again, and releases the old claim afterwards; so claims are
 * counted.
 *
 * Topics are equal if their comparable forms are (W-026). Any thread.
 */
#pragma once

#include <pthread.h>

#include "base/map.h"
#include "proto/uri.h"

struct set;
struct upstream; /* a claimed topic */

/* Zero, but for the mutex. */
struct upstreams {
    pthread_mutex_t mutex;
    struct map topics;
};

/* "relay " and a name. */
#define UPSTREAM_OWNER_MAX (SET_NAME_MAX + 8)

void upstreams_fini(struct upstreams *u); /* after all claims */

/* Claims a topic, a valid URL, for `owner`: "set demo", "relay news".
 * STATUS_INVALID: the topic has another owner, named in `why`. */
MUST_CHECK enum status upstreams_claim(struct upstreams *u, struct slice url,
                                       const char *owner,
                                       struct upstream **claim,
                                       struct problem *why);

/* Makes upstreams_find return `set` for the topic; NULL: ends that. */
void upstream_settle(struct upstream *claim, struct set *set);

/* NULL is allowed. */
void upstream_release(struct upstream *claim);

/* Returns the set with that topic; NULL: none. `url` is valid. */
struct set *upstreams_find(struct upstreams *u, struct slice url);

/*
 * upstreams.h - foreign topics, and whose each of them is: of one set (its
 * setting "upstreamTopic"), or of one relay (broker/hub).
 *
 *     upstreams_claim --> upstream_settle (of a set, when it is committed)
 *            \-----------------\--> upstream_release
 *
 * A topic is claimed before it is written down anywhere, so that of two who
 * name it at the same time one is refused. Claims are counted: a set that gets
 * settings with the topic it has claims it again, and lets go of the old claim
 * afterwards.
 *
 * Topics are the same if their comparable forms are (W-026). Any thread.
 */
#ifndef BROKER_SETS_UPSTREAMS_H
#define BROKER_SETS_UPSTREAMS_H

#include <pthread.h>
#include <stddef.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

struct set;
struct upstream; /* a topic that somebody claims */

/* Lists that topics are spread over: three in each if every set has one. Made
 * with the first topic. */
#define UPSTREAMS_LISTS 16384

struct upstreams {
    pthread_mutex_t mutex;
    struct upstream **lists; /* NULL: no topic yet */
};

/* "relay " and a name. */
#define UPSTREAM_OWNER_MAX (SET_NAME_MAX + 8)

void upstreams_init(struct upstreams *u);
void upstreams_fini(struct upstreams *u); /* all claims were given back */

/* Claims a topic, a valid URL, for `owner`: "set demo", "relay news".
 * STATUS_INVALID: it is somebody else's, and whose; STATUS_BUSY: no memory. */
MUST_CHECK enum status upstreams_claim(struct upstreams *u, struct slice url,
                                       const char *owner,
                                       struct upstream **claim,
                                       struct problem *why);

/* From now on it is found, and leads to `set`; NULL: no longer. */
void upstream_settle(struct upstream *claim, struct set *set);

/* NULL is allowed. */
void upstream_release(struct upstream *claim);

/* The set whose topic that is; NULL: none. `url` is valid. */
struct set *upstreams_find(struct upstreams *u, struct slice url);

#endif

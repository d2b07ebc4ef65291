/*
 * configured.h - what the sets were told to be: the settings of each, its
 * peers, and which foreign topic is whose. The part of registry.h that has to
 * do with them.
 */
#ifndef BROKER_SETS_CONFIGURED_H
#define BROKER_SETS_CONFIGURED_H

#include <pthread.h>

#include "broker/config/config.h"
#include "broker/sets/registry.h"
#include "broker/sets/upstreams.h"
#include "proto/problem.h"
#include "proto/status.h"

struct configured {
    const struct config *config;
    pthread_mutex_t mutex; /* guards the settings of all sets, and this: */
    struct set *changed;   /* a chain, by set->next_changed */
    struct upstreams upstreams;
};

void configured_init(struct configured *c, const struct config *config);
void configured_fini(struct configured *c); /* no set has settings any more */

/* Claims the upstream topic of `peers`, if it has one, for the set of that
 * name; the claim ends with them. `peers` may be NULL. STATUS_INVALID: it is
 * somebody else's. */
MUST_CHECK enum status configured_claim(struct registry *registry,
                                        const char *name, struct peers *peers,
                                        struct problem *why);

/* Gives a set the settings that the log kept for it, at the start: `text`, and
 * the limits of lists in them. A broker that reads its own settings back may
 * know less than the one that wrote them; the set is served all the same.
 * STATUS_MEMORY. */
MUST_CHECK enum status configured_restore(struct set *set, struct slice text,
                                          struct list_limits *limits);

/* Takes over the settings of a set (NULL: it was removed), and frees those it
 * had. Log thread. */
void configured_swap(struct set *set, struct settings *settings);

#endif

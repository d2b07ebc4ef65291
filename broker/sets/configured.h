/*
 * configured.h - the configuration of sets: the settings of each, its peers,
 * and the owners of foreign topics. A part of registry.h.
 */
#ifndef BROKER_SETS_CONFIGURED_H
#define BROKER_SETS_CONFIGURED_H

#include <pthread.h>

#include "broker/config/config.h"
#include "broker/sets/registry.h"
#include "broker/sets/upstream_topics.h"
#include "proto/problem.h"
#include "proto/status.h"

struct configured {
    const struct config *config;
    pthread_mutex_t mutex; /* guards the settings of all sets, and this: */
    struct set *changed;   /* a chain, by set->next_changed */
    struct upstreams upstreams;
};

void configured_init(struct configured *c, const struct config *config);
void configured_fini(struct configured *c); /* after the settings of all sets */

/* Claims the upstream topic of `peers`, if it has one, for the set of that
 * name; the claim ends with them. `peers` may be NULL. STATUS_INVALID: the
 * topic has another owner. */
MUST_CHECK enum status configured_claim(struct registry *registry,
                                        const char *name, struct peers *peers,
                                        struct problem *why);

/* Restores the settings of a set from the log, at the start: `text`, and the
 * limits of lists in them. An older broker may not know all settings; it serves
 * the set all the same. STATUS_MEMORY. */
MUST_CHECK enum status configured_restore(struct set *set, struct slice text,
                                          struct list_limits *limits);

/* Takes over new settings of a set (NULL: it was removed), and frees the old
 * ones. Log thread. */
void configured_swap(struct set *set, struct settings *settings);

#endif

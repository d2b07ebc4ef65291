/*
 * descriptions.h - which Source Description a set stands in.
 *
 * While the sets are few there is one, at the well-known address. When they are
 * more than --description-sets, that is the address of an index, whose
 * parts have so many sets each, by the numbers that sets got when they began
 * (log_set_number):
 *
 *   /.well-known/resourcesync
 *     /descriptions/000000000001-000000005000.xml
 *     /descriptions/000000005001-000000010000.xml    still growing
 *
 * A part's address says which sets it has, those of them that are there: so a
 * set stays in its part while others come and go, and what has gone leaves a
 * hole. A part without any set is not there.
 */
#ifndef BROKER_SETS_DESCRIPTIONS_H
#define BROKER_SETS_DESCRIPTIONS_H

#include <stddef.h>

#include "broker/sets/links.h"
#include "broker/sets/parts.h"
#include "broker/sets/registry.h"

/* Sets of a part at most: --description-sets is never more. */
#define DESCRIPTION_SETS_MAX 5000

/* With `n` sets. */
struct parts descriptions_of(const struct registry *registry, size_t n);

/* As it is now. Any thread. */
struct parts descriptions_now(struct registry *registry);

/* The part that has set `number`. */
struct link_text descriptions_part(const struct registry *registry,
                                   const struct parts *parts, uint64_t number);

/* The Source Description that has the set. Any thread. */
struct link_text descriptions_link(const struct set *set);

#endif

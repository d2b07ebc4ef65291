/*
 * descriptions.h - finds the Source Description of a set.
 *
 * A few sets share one document at the well-known address. With more than
 * --description-sets, an index has that address. Its parts have so many
 * sets each, by the numbers that sets got when they began (log_set_number):
 *
 *   /.well-known/resourcesync
 *     /descriptions/000000000001-000000005000.xml
 *     /descriptions/000000005001-000000010000.xml    still growing
 *
 * The address of a part says which numbers it has, so a set stays in its part
 * while others come and go, and a removed set leaves a hole. A part without any
 * set does not exist.
 */
#ifndef BROKER_SETS_DESCRIPTIONS_H
#define BROKER_SETS_DESCRIPTIONS_H

#include <stddef.h>

#include "broker/sets/links.h"
#include "broker/sets/parts.h"
#include "broker/sets/registry.h"

/* Most sets of a part: --description-sets is never more. */
#define DESCRIPTION_SETS_MAX 5000

/* The parts with `n` sets. */
struct parts descriptions_of(const struct registry *registry, size_t n);

/* The parts with the sets of now. Any thread. */
struct parts descriptions_now(struct registry *registry);

/* The part that has set `number`. */
struct link_text descriptions_part(const struct registry *registry,
                                   const struct parts *parts, uint64_t number);

/* The Source Description that has the set. Any thread. */
struct link_text descriptions_link(const struct set *set);

#endif

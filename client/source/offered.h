/*
 * offered.h - what is known of a set, put together from several documents: the
 * first to tell a thing is believed.
 */
#ifndef CLIENT_SOURCE_OFFERED_H
#define CLIENT_SOURCE_OFFERED_H

#include "client/source/discover.h"
#include "proto/slice.h"
#include "proto/status.h"

/* `rel`: a capability, or a relation of ours; others are passed over, and so is
 * an `href` that is not spoken here (http, https); without its fragment. False:
 * no memory. */
bool offered_take(struct offered *o, struct slice rel, struct slice href);

/* Moves what `o` does not know from `other`, of which the rest is freed. */
void offered_merge(struct offered *o, struct offered *other);

/* Is there anything but a Capability List: a list, a dump, a channel? */
bool offered_is_something(const struct offered *o);

/* {"name":...,"position":...,"links":[{"rel":...,"href":...},...]}: links are
 * called back, in order, and taken by nobody. STATUS_MALFORMED: no description
 * of a set. */
typedef bool offered_link_fn(struct slice rel, struct slice href,
                             struct slice type, void *user);
MUST_CHECK enum status offered_describe(struct offered *o, struct slice json,
                                        offered_link_fn *on_link, void *user);

/* {"sets":[{"href":...},...],"next":...}: calls back with "set" or "next" as
 * rel. STATUS_MALFORMED: it is none. */
MUST_CHECK enum status offered_each_set(struct slice json,
                                        offered_link_fn *on_link, void *user);

#endif

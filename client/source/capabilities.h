/*
 * capabilities.h - merges what several documents say of a set: the first to
 * state a value is believed.
 */
#pragma once

#include "client/source/discovery.h"

/* Stores the link if `rel` is a capability or one of our relations and `href`
 * is http or https; drops the fragment. Ignores others. False: no memory. */
bool offered_take(struct offered *o, struct slice rel, struct slice href);

/* Moves values that `o` lacks from `other`, and frees the others. */
void offered_merge(struct offered *o, struct offered *other);

/* True if it has more than a Capability List: a list, dump or channel. */
bool offered_is_something(const struct offered *o);

/* {"name":...,"position":...,"links":[{"rel":...,"href":...},...]}: stores the
 * texts, and calls back for each link in order, without storing it.
 * STATUS_MALFORMED: no description of a set. */
typedef bool offered_link_fn(struct slice rel, struct slice href,
                             struct slice type, void *user);
MUST_CHECK enum status offered_describe(struct offered *o, struct slice json,
                                        offered_link_fn *on_link, void *user);

/* {"sets":[{"href":...},...],"next":...}: calls back with "set" or "next" as
 * rel. STATUS_MALFORMED: no list of sets. */
MUST_CHECK enum status offered_each_set(struct slice json,
                                        offered_link_fn *on_link, void *user);

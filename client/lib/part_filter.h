/*
 * part_filter.h - a part of a source: which of its resources a copy has.
 *
 * The filter is that of streams (change_filter.h), of what a resource is: tag=,
 * prefix= and type=. It is applied here, not by the source, so that a change
 * that leads out of the part is seen.
 */
#pragma once

#include "client/tidings_follow.h"
#include "proto/buf.h"
#include "proto/resourcesync/change_filter.h"

/* Reads "tag=a&prefix=http://..."; "" and "all": everything. STATUS_INVALID:
 * it is none. */
MUST_CHECK enum status part_filter_read(struct filter *filter, const char *text,
                                        struct problem *why);

/* True if the resource passes, or nobody can say. `scratch` is used. */
bool part_filter_passes(const struct filter *filter, const struct td_change *c,
                        struct buf *scratch);

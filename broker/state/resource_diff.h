/*
 * resource_diff.h - compares a source's complete list of resources
 * (upload_file.h) with the state of its set (resources.h), and makes the
 * changes that turn the state into the list.
 *
 *     resource_diff_open -> resource_diff_news ... -> resource_diff_compare ...
 *          -> resource_diff_count [-> resource_diff_hold] ->
 * resource_diff_next, resource_diff_news
 * ...
 *          -> resource_diff_close
 *
 * A resource that only the source has is created. One that the source describes
 * differently is updated (all that the source states counts, byte for byte as
 * in a Resource List; the seq is not the source's). One that only the state has
 * is deleted.
 *
 * The set may change meanwhile. If a resource was changed after the body began
 * to arrive, the comparison leaves it alone, because that change is newer than
 * the body. So the state need not stand still: for all other resources it is as
 * it was at that moment, if it was folded up to there. The comparison may also
 * be repeated after a crash: changes that were posted before the crash count as
 * newer, too.
 *
 * The differences are in a file of their own (NAME.work), which a new
 * comparison does not need.
 *
 * Only the archive thread uses it.
 */
#ifndef BROKER_STATE_RESOURCE_DIFF_H
#define BROKER_STATE_RESOURCE_DIFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/state/upload_file.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/fragment.h"
#include "proto/slice.h"
#include "proto/status.h"

struct resource_diff;

/* Opens the complete file NAME in `dir`. */
MUST_CHECK enum status resource_diff_open(struct resource_diff **difference,
                                          const char *dir, const char *name,
                                          struct problem *why);
void
resource_diff_close(struct resource_diff *difference); /* NULL is allowed */

/* When *is_ending is true the present call gives up soon, with STATUS_STOPPED.
 * Lent. */
void resource_diff_heed(struct resource_diff *d, const atomic_bool *is_ending);

const struct upload_file_about *
resource_diff_about(const struct resource_diff *d);

/* Sets the file of the state (RESOURCES_FILE of its set), folded at least up to
 * about->after; NULL: the set does not exist, or has no resource. Before
 * comparing. */
MUST_CHECK enum status resource_diff_state(struct resource_diff *d,
                                           const char *path,
                                           struct problem *why);

/* Notes a change of that resource (its loc as in fragments) behind
 * about->after. */
MUST_CHECK enum status resource_diff_news(struct resource_diff *d,
                                          struct slice loc,
                                          struct problem *why);

/* Compares some more: one bounded step. */
MUST_CHECK enum status resource_diff_compare(struct resource_diff *d,
                                             bool *is_more,
                                             struct problem *why);

struct resource_diff_counts {
    uint64_t created, updated, deleted; /* changes to post */
    uint64_t unchanged;
    uint64_t newer;     /* differ, but are left alone */
    uint64_t held_back; /* deletions not to post: resource_diff_hold */
};

/* Counts, as of the news so far. */
MUST_CHECK enum status resource_diff_count(struct resource_diff *d,
                                           struct resource_diff_counts *counts,
                                           struct problem *why);

/* The number of resources of the state that were changed after the body began
 * to arrive, once all is compared. */
uint64_t resource_diff_changed(const struct resource_diff *d);

/* From now on resource_diff_next counts deletions as held back, and does not
 * return them. */
void resource_diff_hold(struct resource_diff *d);

/* Counts the changes that resource_diff_next has returned. */
const struct resource_diff_counts *
resource_diff_told(const struct resource_diff *d);

/* Some of the changes, to be posted together. */
struct resource_diff_part {
    struct buf bytes;
    struct fragment *fragments; /* room for `max` */
    size_t n, max;
};

/* Returns the next changes, as many as there is room for; n = 0: there are no
 * more. Overwrites the part, which the caller has made. */
MUST_CHECK enum status resource_diff_next(struct resource_diff *d,
                                          struct resource_diff_part *part,
                                          struct problem *why);

#endif

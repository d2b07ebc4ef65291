/*
 * difference.h - compares a source's complete list of resources (staging.h)
 * with the state of its set (resources.h), and makes the changes that turn the
 * state into the list.
 *
 *     difference_open -> difference_news ... -> difference_compare ...
 *          -> difference_counts -> difference_next, difference_news ...
 *          -> difference_close
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
#ifndef BROKER_STATE_DIFFERENCE_H
#define BROKER_STATE_DIFFERENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/state/staging.h"
#include "proto/buf.h"
#include "proto/fragment.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct difference;

/* Opens the complete file NAME in `dir`. */
MUST_CHECK enum status difference_open(struct difference **difference,
                                       const char *dir, const char *name,
                                       struct problem *why);
void difference_close(struct difference *difference); /* NULL is allowed */

/* When *is_ending is true the present call gives up soon, with STATUS_STOPPED.
 * Lent. */
void difference_heed(struct difference *d, const atomic_bool *is_ending);

const struct staging_about *difference_about(const struct difference *d);

/* Sets the file of the state (RESOURCES_FILE of its set), folded at least up to
 * about->after; NULL: the set does not exist, or has no resource. Before
 * comparing. */
MUST_CHECK enum status difference_state(struct difference *d, const char *path,
                                        struct problem *why);

/* Notes a change of that resource (its loc as in fragments) behind
 * about->after. */
MUST_CHECK enum status difference_news(struct difference *d, struct slice loc,
                                       struct problem *why);

/* Compares some more: one bounded step. */
MUST_CHECK enum status difference_compare(struct difference *d, bool *is_more,
                                          struct problem *why);

struct difference_counts {
    uint64_t created, updated, deleted; /* changes to post */
    uint64_t unchanged;
    uint64_t newer; /* differ, but are left alone */
};

/* Counts, as of the news so far. */
MUST_CHECK enum status difference_count(struct difference *d,
                                        struct difference_counts *counts,
                                        struct problem *why);

/* Counts the changes that difference_next has returned. */
const struct difference_counts *difference_told(const struct difference *d);

/* Some of the changes, to be posted together. */
struct difference_part {
    struct buf bytes;
    struct fragment *fragments; /* room for `max` */
    size_t n, max;
};

/* Returns the next changes, as many as there is room for; n = 0: there are no
 * more. Overwrites the part, which the caller has made. */
MUST_CHECK enum status difference_next(struct difference *d,
                                       struct difference_part *part,
                                       struct problem *why);

#endif

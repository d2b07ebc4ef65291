/*
 * difference.h - what a source told whole (staging.h) against the state of its
 * set (resources.h): what has to be told so that they become the same.
 *
 *     difference_open -> difference_news ... -> difference_compare ...
 *          -> difference_counts -> difference_next, difference_news ...
 *          -> difference_close
 *
 * Created is what only the source has, updated what it describes otherwise than
 * the state does (all that it told counts, byte for byte as a Resource List
 * would have it; the seq is not the source's), deleted what only the state has.
 *
 * Time goes on meanwhile: about a resource of which somebody has told since the
 * body began to arrive nothing is told, for that news is newer than the body.
 * So the state need not stand still: for all other resources it is what it was
 * at that moment, as long as it has been folded up to there. And it may be done
 * again after a crash: what was told before it is such news, too.
 *
 * The differences are kept in a file of their own (NAME.work), which nobody
 * needs who begins anew.
 *
 * One thread: the archive thread.
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

/* Opens the whole file NAME in `dir`. */
MUST_CHECK enum status difference_open(struct difference **difference,
                                       const char *dir, const char *name,
                                       struct problem *why);
void difference_close(struct difference *difference); /* NULL is allowed */

/* When *is_ending is true, what is being done is given up soon, with
 * STATUS_STOPPED. Lent. */
void difference_heed(struct difference *d, const atomic_bool *is_ending);

const struct staging_about *difference_about(const struct difference *d);

/* The state is in that file (RESOURCES_FILE of its set), folded at least up to
 * about->after; NULL: there is no such set, and no resource. Before comparing.
 */
MUST_CHECK enum status difference_state(struct difference *d, const char *path,
                                        struct problem *why);

/* Somebody told of that resource (its loc as fragments have it) behind
 * about->after. */
MUST_CHECK enum status difference_news(struct difference *d, struct slice loc,
                                       struct problem *why);

/* Compares some more: a bounded step. */
MUST_CHECK enum status difference_compare(struct difference *d, bool *is_more,
                                          struct problem *why);

struct difference_counts {
    uint64_t created, updated, deleted; /* to be told */
    uint64_t unchanged;
    uint64_t newer; /* left alone, though they differ */
};

/* As of the news so far. */
MUST_CHECK enum status difference_count(struct difference *d,
                                        struct difference_counts *counts,
                                        struct problem *why);

/* Of what difference_next has given. */
const struct difference_counts *difference_told(const struct difference *d);

/* Some of the changes, to be posted together. */
struct difference_part {
    struct buf bytes;
    struct fragment *fragments; /* room for `max` */
    size_t n, max;
};

/* The next ones, as many as there is room for; n = 0: there are no more. Clears
 * the part before; the caller has made it. */
MUST_CHECK enum status difference_next(struct difference *d,
                                       struct difference_part *part,
                                       struct problem *why);

#endif

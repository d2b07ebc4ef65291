/*
 * positions.h - positions that clients present, judged by the head of a set.
 *
 * A position of another epoch, or ahead of the log, is refused loudly: who took
 * it for one of ours would miss entries silently.
 */
#ifndef BROKER_SETS_POSITIONS_H
#define BROKER_SETS_POSITIONS_H

#include <stdint.h>

#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The seq that `text` ("epoch-seq" or a plain seq, 0 the beginning) names in
 * the log that `head` is the end of. STATUS_MALFORMED, or STATUS_GONE. */
MUST_CHECK enum status positions_judge(const struct head *head,
                                       struct slice text, uint64_t *seq,
                                       struct problem *why);

/* The earliest position that can be served. */
void positions_earliest(const struct head *head, char to[POSITION_MAX]);

/* Members for the problem that goes with STATUS_GONE: the earliest and the last
 * position, and where to restart. Begins with a comma, terminated. */
void positions_members(const struct set *set, const struct head *head,
                       struct buf *to);

#endif

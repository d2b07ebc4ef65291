/*
 * positions.h - checks positions of clients against the head of a set.
 *
 * The broker refuses a position of another epoch, or ahead of the log, with an
 * error: otherwise the client would miss entries silently. A broker of
 * a cluster first waits until its copy is certain (log_is_certain), if it may
 * lack the position: another broker may have sent it.
 */
#pragma once

#include "broker/sets/registry.h"
#include "proto/resourcesync/position.h"

/* Reads the seq of `text` ("epoch-seq" or a plain seq, 0 the beginning) in the
 * log with that head. STATUS_MALFORMED, or STATUS_GONE. */
MUST_CHECK enum status positions_judge(const struct head *head,
                                       struct slice text, uint64_t *seq,
                                       struct problem *why);

/* The same for a position that was read; only STATUS_GONE. */
MUST_CHECK enum status positions_judge_read(const struct head *head,
                                            const struct position *position,
                                            uint64_t *seq, struct problem *why);

/* As log_since, for a reader of the epoch: STATUS_GONE, too, if that began
 * later. */
MUST_CHECK enum status positions_since(const struct set *set, int64_t us,
                                       enum log_patience patience,
                                       uint64_t *seq, struct problem *why);

/* True if a copy of the log that has not yet all records of its journal may get
 * that position: it is behind the head, or of another epoch. */
bool positions_is_ahead(const struct head *head,
                        const struct position *position);

/* Appends members for the problem of STATUS_GONE: the earliest and the last
 * position, and the link to restart from. Begins with a comma, terminated. */
void positions_members(const struct set *set, const struct head *head,
                       struct buf *to);

/*
 * endings.h - what a commit ends: a set, the oldest lists of one, the rows of
 * what has gone.
 *
 * The log thread's, as parts of commit.c: each places one post into the round.
 */
#ifndef BROKER_LOG_ENDINGS_H
#define BROKER_LOG_ENDINGS_H

#include <stdint.h>

#include "broker/log/commit.h"

/* STATUS_MEMORY: the round fails. The set's draft says what will hold. */
MUST_CHECK enum status endings_removal(struct committer *c, struct post *post,
                                       int64_t now_us);
MUST_CHECK enum status endings_retirement(struct committer *c,
                                          struct post *post, int64_t now_us);
MUST_CHECK enum status endings_purge(struct committer *c, struct post *post);

#endif

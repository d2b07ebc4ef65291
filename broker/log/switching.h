/*
 * switching.h - what a commit says of a set's generations (generations.h):
 * which is current, which are archived, whose files are gone.
 *
 * The log thread's, as parts of commit.c: each places one post into the round.
 */
#ifndef BROKER_LOG_SWITCHING_H
#define BROKER_LOG_SWITCHING_H

#include <stdint.h>

#include "broker/log/commit.h"

/* STATUS_MEMORY: the round fails. The set's draft says what will hold. */
MUST_CHECK enum status switching_generation(struct committer *c,
                                            struct post *post, int64_t now_us);
MUST_CHECK enum status switching_unarchive(struct committer *c,
                                           struct post *post, int64_t now_us);
MUST_CHECK enum status switching_swept(struct committer *c, struct post *post);

#endif

/*
 * taking.h - a set is given the resources that its source has told whole: what
 * differs from its state is posted as changes.
 *
 *     the state is folded up to where the body began to arrive
 *     --> the log is read from there on: what others have told is newer
 *     --> compared, step by step
 *     --> would too much go? then refused, and nothing was told
 *     --> accepted, durably; posted in commits of at most 10,000, each after
 *         another look at what others have told
 *
 * A state that was not whole is whole from there on (resources_heal).
 *
 * All of it may be done again from the beginning after a crash (difference.h).
 * Between the steps others' posts go on; a change of somebody else that comes
 * between the last look and the commit is overtaken by ours, as if the source
 * had told that later.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_TAKING_H
#define BROKER_ARCHIVE_TAKING_H

#include <stdbool.h>

#include "broker/archive/folding.h"
#include "broker/archive/uploads.h"
#include "broker/sets/registry.h"
#include "proto/status.h"

/* Entries of a commit. */
#define TAKING_ENTRIES 10000

struct taking;

/* Begins with the whole file `name` in `dir`. */
MUST_CHECK enum status taking_open(struct taking **taking,
                                   struct registry *registry, const char *dir,
                                   const char *name, struct problem *why);
void taking_close(struct taking *taking); /* NULL is allowed */

/* One step. *is_done: there is an outcome; so there is after an error. */
MUST_CHECK enum status taking_step(struct taking *taking,
                                   struct folding *folding, bool *is_done,
                                   struct problem *why);

/* The last step has done nothing: the state is held (folding_hold). Nothing was
 * told yet, so nothing is lost by beginning again later. */
bool taking_is_waiting(const struct taking *taking);

const struct upload_outcome *taking_outcome(const struct taking *taking);

#endif

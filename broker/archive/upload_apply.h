/*
 * upload_apply.h - applies an upload of the complete set (upload_file.h):
 * compares it with the state of the set (resources.h) and posts the changes
 * that turn the state into the upload.
 *
 *     the state is folded up to where the body began to arrive
 *     --> the log is read from there on: other posts there are newer
 *     --> compared, step by step
 *     --> would it delete too much? then its deletions are held back
 *     --> else accepted, durably
 *     --> posted in commits of at most 10,000, each after another look at the
 *         posts of others
 *
 * A state that was not whole is whole from there on (resources_heal).
 *
 * A resource that only the source has is created. One that the source describes
 * differently is updated (all that the source states counts, byte for byte as
 * in a Resource List; the seq is not the source's). One that only the state has
 * is deleted.
 *
 * The set may change meanwhile. If a resource was changed after the body began
 * to arrive, the comparison leaves it alone, because that change is newer than
 * the body. So the state need not stand still: for all other resources it is as
 * it was at that moment, if it was folded up to there. After a crash the work
 * may begin again from the start: changes that were posted before the crash
 * count as newer, too. The differences are in a file of their own (NAME.work),
 * which a new comparison does not need.
 *
 * Between the steps other posts go on. If one is committed between the last
 * look and our commit, our change counts as the later one.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/state_fold.h"
#include "broker/archive/uploads.h"
#include "broker/sets/registry.h"

/* Entries of a commit. */
#define UPLOAD_APPLY_ENTRIES 10000

struct upload_apply;

/* Begins with the complete file of the upload in `dir`. Both are lent. Each
 * step adds to the upload's outcome. A set that does not exist is made for the
 * upload's client, and each commit asks its authority. */
MUST_CHECK enum status upload_apply_open(struct upload_apply **apply,
                                         struct registry *registry,
                                         const char *dir, struct upload *upload,
                                         struct problem *why);
void upload_apply_close(struct upload_apply *apply); /* NULL is allowed */

/* One step. *is_done: the outcome is complete, as it is after an error.
 * STATUS_RUNNING: it did nothing because the state is held (state_fold.held);
 * nothing was posted yet, so beginning again later loses nothing. */
MUST_CHECK enum status upload_apply_step(struct upload_apply *apply,
                                         struct state_fold *folding,
                                         bool *is_done, struct problem *why);

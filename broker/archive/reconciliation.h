/*
 * reconciliation.h - applies an upload of the complete set: compares it with
 * the state of the set and posts the differences as changes.
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
 * After a crash the work may begin again from the start (resource_diff.h).
 * Between the steps other posts go on. If one is committed between the last
 * look and our commit, our change counts as the later one.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_RECONCILIATION_H
#define BROKER_ARCHIVE_RECONCILIATION_H

#include <stdbool.h>

#include "broker/archive/state_fold.h"
#include "broker/archive/uploads.h"
#include "broker/sets/registry.h"
#include "proto/status.h"

/* Entries of a commit. */
#define RECONCILIATION_ENTRIES 10000

struct reconciliation;

/* Begins with the complete file of the upload in `dir`. Both are lent. Each
 * step adds to the upload's outcome. A set that does not exist is made for the
 * upload's client, and each commit asks its authority. */
MUST_CHECK enum status reconciliation_open(struct reconciliation **taking,
                                           struct registry *registry,
                                           const char *dir,
                                           struct upload *upload,
                                           struct problem *why);
void reconciliation_close(struct reconciliation *taking); /* NULL is allowed */

/* One step. *is_done: the outcome is complete, as it is after an error. */
MUST_CHECK enum status reconciliation_step(struct reconciliation *taking,
                                           struct state_fold *folding,
                                           bool *is_done, struct problem *why);

/* True if the last step did nothing because the state is held
 * (state_fold_hold). Nothing was posted yet, so beginning again later loses
 * nothing. */
bool reconciliation_is_waiting(const struct reconciliation *taking);

#endif

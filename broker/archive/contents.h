/*
 * contents.h - the content of all sets that keep some (setting `content`):
 * folds their logs into it (broker/state/content.h), a step at a time, and lets
 * go of what retention has.
 *
 * It follows the state of a set (folding.h) and is never ahead of it: while the
 * state is held, the rows of all its resources stay. Retention waits for it as
 * it does for the state.
 *
 *   off --set to fetch or inline--> on: behind what the log still has, it knows
 *    ^                               |   all; of what went before, nothing
 *    |                               |
 *    +--- off for the grace that <---+ set to none: nothing is folded, nothing
 *         removed sets have: all         fetched; set back within the grace, it
 *         that was kept goes             goes on
 *
 * Claims. Who places a file does so before the entry that tells of it is
 * committed, from any thread:
 *
 *     contents_claim --> contents_place ... --> contents_sync
 *          --> the entries are committed --> contents_end(claim, last seq)
 *          \-> they are not               -> contents_end(claim, 0)
 *
 * What is claimed is not taken away; a claim ends when the entries up to its
 * seq are folded: then a row tells of the file, or it goes. A crash leaves
 * files without a row or a claim: they are looked for once in a life of the
 * process, when the content has come to where the log ended.
 *
 * Archive thread, where nothing else is said.
 */
#ifndef BROKER_ARCHIVE_CONTENTS_H
#define BROKER_ARCHIVE_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/chore.h"
#include "broker/base/clients.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "broker/state/content_files.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/status.h"

struct contents; /* archiver_contents */

MUST_CHECK enum status contents_new(struct contents **contents,
                                    struct registry *registry,
                                    struct problem *why);
void contents_free(struct contents *contents); /* NULL is allowed */

/* What the archive thread does for them. When it has ended, claims can still
 * end. */
struct chore *contents_chore(struct contents *contents);

/* The content of a set that exists and keeps some, lent until the next call of
 * any of these. STATUS_NOT_FOUND: it keeps none. STATUS_GONE: it was removed.
 */
MUST_CHECK enum status contents_open(struct contents *contents, struct set *set,
                                     struct content **content,
                                     struct problem *why);

/* Around what takes folders of removed sets off the disk: claims wait. */
void contents_shut(struct contents *contents);
void contents_unshut(struct contents *contents);

/* To be told after content_keep, content_postpone and content_give_up: what the
 * set is known to have is what `content` says. */
void contents_note(struct set *set, const struct content *content);

/* Up to which entry the content of the set is folded, as far as is known. And:
 * may some of it be due to be fetched at `now_us`? */
uint64_t contents_seq(const struct set *set);
bool contents_is_due(const struct set *set, int64_t now_us);

/* Is what the list tells not in the content yet? It has no other witness: which
 * file an entry told of. Then it is folded even while the disk is nearly full.
 */
bool contents_needs(struct set *set, const struct list_info *list);

/* Any thread */

/* The folder in which files arrive. */
const char *contents_arriving(const struct contents *contents);

/* So many bytes are going to arrive; so many of them have arrived, or never
 * will. */
void contents_announce(struct contents *contents, uint64_t bytes);
void contents_arrived(struct contents *contents, uint64_t bytes);

/* Takes `bytes` of the disk for the client of `disk`, a holding of CLIENT_DISK.
 * All clients together may have what is free, less what others have announced
 * (all but `own`), less what the log needs. Looks at the disk. STATUS_LIMITED:
 * the client has its share of that; STATUS_BUSY: there is no room. */
MUST_CHECK enum status contents_hold(struct contents *contents,
                                     struct holding *disk, uint64_t bytes,
                                     uint64_t own, struct problem *why);

struct content_claim;

/* STATUS_GONE: the set does not exist (any more): it is to be made first.
 * Waits while the folder of a removed set is being cleared. */
MUST_CHECK enum status contents_claim(struct contents *contents,
                                      struct set *set,
                                      struct content_claim **claim,
                                      struct problem *why);

/* Gives bytes that have ended their name, and claims it (content_file_place).
 * `arriving` has nothing left to abandon. */
MUST_CHECK enum status contents_place(struct content_claim *claim,
                                      struct arriving *arriving,
                                      struct problem *why);

/* Claims what is in the store already. STATUS_NOT_FOUND: it is not. */
MUST_CHECK enum status contents_find(struct content_claim *claim,
                                     const struct digest *digest,
                                     uint64_t *length, struct problem *why);

/* All that was claimed is on the disk when it returns, under its name. Costs
 * nothing where nothing was placed, by this claim or another one. */
MUST_CHECK enum status contents_sync(struct content_claim *claim,
                                     struct problem *why);

/* The claim is needed until the entries up to `last` are folded; 0: no longer.
 * Frees it. Never blocks on a disk: log thread, too. NULL is allowed. */
void contents_end(struct content_claim *claim, uint64_t last);

#endif

/*
 * contents.h - the content of all sets that keep some (setting `content`):
 * folds their logs into it (broker/state/content.h), a step at a time, and
 * deletes the content of entries that retention has removed.
 *
 * The content follows the state of a set (state_fold.h) and is never ahead of
 * it: while the state is held, the rows of all its resources stay. Retention
 * waits for the content as it does for the state.
 *
 *   off --set to fetch or inline--> on: behind what the log still has, it knows
 *    ^                               |   all; of what went before, nothing
 *    |                               |
 *    +--- off for the grace that <---+ set to none: nothing is folded, nothing
 *         removed sets have: all         fetched; set back within the grace, it
 *         that was kept goes             goes on
 *
 * Pins. Any thread places a file before the log commits the file's entry:
 *
 *     contents_pin --> contents_place ... --> contents_sync
 *          --> the entries are committed --> contents_end(pin, last seq)
 *          \-> they are not               -> contents_end(pin, 0)
 *
 * The archive thread deletes no pinned file. A pin ends when the entries up
 * to its seq are folded; a file that no row names then goes. A crash leaves
 * files without a row or a pin (orphans). The archive thread looks for them
 * once in the life of the process, when the fold has come to where the log
 * ended.
 *
 * Archive thread, except where noted.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/base/client_limits.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "broker/state/content_files.h"
#include "proto/resourcesync/digest.h"

/* A file is "going" while the archive thread looks for a row that names it and
 * deletes it. A thread that wants to pin that very file waits. Nothing else
 * waits, and no thread holds the mutex while it waits for a disk. */
struct contents {
    struct chore chore;       /* of the archive thread; pins can still end after
                                 it has ended */
    char arriving[4096 + 16]; /* the folder in which files arrive; constant */

    /* Bytes that are going to arrive. The thread that adds some subtracts them
     * when they have arrived, or never will. Orders nothing: a sum. */
    _Atomic(uint64_t) announced;

    /* For contents.c only. */
    struct registry *registry;
    struct folds opened;
    struct turn turn;

    pthread_mutex_t mutex; /* over all below */
    pthread_cond_t changed;
    struct map files; /* struct pinned */
    struct list pins;
    bool is_shut;
    const struct set *going_set; /* NULL: nothing is */
    struct digest going;
};

MUST_CHECK enum status contents_new(struct contents **contents,
                                    struct registry *registry,
                                    struct problem *why);
void contents_free(struct contents *contents); /* NULL is allowed */

/* Opens the content of a set, lent until the next call of any of these.
 * STATUS_NOT_FOUND: the set keeps none. STATUS_GONE: the set was removed.
 */
MUST_CHECK enum status contents_open(struct contents *contents, struct set *set,
                                     struct content **content,
                                     struct problem *why);

/* Makes new pins wait until contents_unshut, while the caller deletes files:
 * those of removed sets, or of `set`. Returns false, and makes none wait, if
 * `set` has pins (NULL: existing pins do not matter). */
bool contents_shut(struct contents *contents, const struct set *set);
void contents_unshut(struct contents *contents);

/* Copies the figures of `content` to the set. Call it after content_note. */
void contents_note(struct set *set, const struct content *content);

/* The last entry folded into the content of the set, as far as is known; and
 * true if some content may be due for a fetch at `now_us`. */
uint64_t contents_seq(const struct set *set);
bool contents_is_due(const struct set *set, int64_t now_us);

/* True if entries of the list are not in the content yet: only the list says
 * which files they describe. The list is then folded even while the disk is
 * nearly full.
 */
bool contents_needs(struct set *set, const struct list_info *list);

/* Any thread */

/* Takes `bytes` of the disk for the client of `disk`, a holding of CLIENT_DISK.
 * All clients together may use the free room, less the bytes that others have
 * announced (all but `own`), less the room that the log needs. Looks at the
 * disk. STATUS_LIMITED: the client has used up its share; STATUS_BUSY: the disk
 * has no room. */
MUST_CHECK enum status contents_hold(struct contents *contents,
                                     struct holding *disk, uint64_t bytes,
                                     uint64_t own, struct problem *why);

struct content_pin;

/* Begins a pin. STATUS_GONE: the set does not exist, or no longer; make it
 * first. Waits while the folder of a removed set is being cleared. */
MUST_CHECK enum status contents_pin(struct contents *contents, struct set *set,
                                    struct content_pin **pin,
                                    struct problem *why);

/* Gives the complete file its name, and pins it (content_file_place).
 * `arriving` has nothing left to abandon. */
MUST_CHECK enum status contents_place(struct content_pin *pin,
                                      struct arriving *arriving,
                                      struct problem *why);

/* Pins a file that is in the store already. STATUS_NOT_FOUND: it is not. */
MUST_CHECK enum status contents_find(struct content_pin *pin,
                                     const struct digest *digest,
                                     uint64_t *length, struct problem *why);

/* In a cluster: has all brokers get the bytes of a fact of a set that is kept:
 * by the bucket, or by `bytes`, to which it appends them. Sets its length and
 * due_us. STATUS_TOO_LARGE; STATUS_BUSY: the bucket does not take them. */
MUST_CHECK enum status contents_share(const struct set *set,
                                      struct content_fact *fact,
                                      struct buf *bytes, struct problem *why);

/* In a cluster: takes the content of a complete post to a set with
 * CONTENT_INLINE into post->contents and content_bytes, which the caller owns.
 * The files are pinned. As contents_share. */
MUST_CHECK enum status contents_carry(const struct set *set, struct post *post,
                                      struct problem *why);

/* Makes all pinned files durable under their names. Costs nothing if no pin
 * has placed a file of these. */
MUST_CHECK enum status contents_sync(struct content_pin *pin,
                                     struct problem *why);

/* Ends the pin once the entries up to `last` are folded; 0: at once. Frees
 * it. Never blocks on a disk: log thread, too. NULL is allowed. */
void contents_end(struct content_pin *pin, uint64_t last);

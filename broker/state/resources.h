/*
 * resources.h - what the resources of a set are now: its log, folded.
 *
 *     sets/NAME/resources.db    one row a resource: its entry of a Resource
 *                               List
 *
 * Each entry of the log puts its resource in (created, updated) or takes it out
 * (deleted); the seq up to which that was done is committed with it: so each
 * entry is folded exactly once, whatever happens, and the state is always that
 * of one position of the log. It holds nothing that the log did not: what of it
 * a crash takes is folded again, which is why retention waits for
 * resources_kept.
 *
 *     (no file) --open--> seq 0 --fold, commit--> seq n --fold, commit--> ...
 *         ^                                                       |
 *         +--- another epoch or history, or damage: begun anew ---+
 *
 * What is begun anew where the log no longer reaches back to its beginning is
 * not whole: resources that have not changed since are missing. It says so in
 * resources_at, and nobody may take it for the set, until the source has told
 * all that there is (difference.h): what was missing is in the log then, and
 * the state is whole when it is folded up to there (resources_heal).
 *
 * One thread, the archive thread; a walk is its, too.
 */
#ifndef BROKER_STATE_RESOURCES_H
#define BROKER_STATE_RESOURCES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/log/batch.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The name of its file, in the directory of its set. */
#define RESOURCES_FILE "resources.db"

struct resources;

/* What the state is of. */
struct resources_at {
    uint64_t seq;   /* every entry up to it is folded, none behind it */
    int64_t us;     /* T(seq); DATETIME_NONE while nothing is folded */
    uint64_t n;     /* resources */
    uint64_t bytes; /* of their entries */
    uint64_t began; /* the entries behind that one make it what it is, 0: all */
    bool is_whole;  /* no resource is missing */
};

/* Opens the state of the set whose directory is `dir`, or begins it. What is
 * there of another epoch (a set of that name that was removed), damaged, or
 * made by a newer program is thrown away; of the last two it is warned.
 * STATUS_IO, STATUS_BUSY: a full disk. */
MUST_CHECK enum status resources_open(struct resources **resources,
                                      const char *dir, const char *epoch,
                                      struct problem *why);

/* What was found damaged it takes off the disk: the next to open it begins it
 * anew. NULL is allowed. */
void resources_close(struct resources *resources);

/* Has an answer, a reader's too, said that it is damaged? Then it is to be
 * closed. */
bool resources_is_damaged(const struct resources *resources);

/* When *is_ending is true, what is being done is given up soon, as if it had
 * not begun, with STATUS_STOPPED; then the state can only be closed. Lent. */
void resources_heed(struct resources *resources, const atomic_bool *is_ending);

/* As of the last commit. */
const struct resources_at *resources_at(const struct resources *resources);

/* Throws away what is there: the next entry to be folded is `after` + 1. */
MUST_CHECK enum status resources_begin(struct resources *resources,
                                       uint64_t after, struct problem *why);

/* Gathers the entries behind the last one that was gathered, else behind
 * resources_at, up to `last`, out of a batch that holds the first of them and
 * `last`. STATUS_AGAIN: the log is not the one that was folded before (an older
 * copy of it was put in its place); the state has begun anew, from
 * resources_at. STATUS_MEMORY: nothing is gathered. */
MUST_CHECK enum status resources_fold(struct resources *resources,
                                      const struct batch *batch, uint64_t last,
                                      struct problem *why);

/* So much was gathered that it should be committed: 16,000 entries, or 4 MiB
 * of them. */
bool resources_is_full(const struct resources *resources);

/* Folds what was gathered, in one transaction: all of it, or, if it fails,
 * nothing (resources_at tells: a commit may be done and the tidying behind it
 * fail). STATUS_AGAIN: the file is damaged; the state has begun anew. After any
 * other failure, here or in what begins it, it is to be closed. */
MUST_CHECK enum status resources_commit(struct resources *resources,
                                        struct problem *why);

/* The state is known to be on the disk up to this seq: a crash of the machine
 * cannot take it back. One of the process never does. */
uint64_t resources_kept(const struct resources *resources);

/* Makes it so of all that was committed. */
MUST_CHECK enum status resources_keep(struct resources *resources,
                                      struct problem *why);

/* The source has told all that there is, compared with a state that began
 * behind entry `began`, and what differed is in the log up to entry `seq`: from
 * there on the state is whole. On the disk when it returns. Nothing happens if
 * the state is whole already, or began elsewhere: it was begun anew meanwhile,
 * and not compared. */
MUST_CHECK enum status resources_heal(struct resources *resources,
                                      uint64_t began, uint64_t seq,
                                      struct problem *why);

/* The entry of one resource as it stands in a Resource List, as of the last
 * commit, lent until the next call; its loc as fragments have it (escaped).
 * STATUS_NOT_FOUND. */
MUST_CHECK enum status resources_find(struct resources *resources,
                                      struct slice loc, struct slice *entry,
                                      uint64_t *seq, struct problem *why);

/* Walking */

/* Resources in an order of their own, each once: about that in which they were
 * created (one that goes and comes again within one commit keeps its place).
 * `id` says how far a walk has come, 0 at its beginning. Nothing may be
 * committed between the steps of one walk. */
struct resources_entry {
    int64_t id;
    uint64_t seq;       /* of the change that it comes from */
    struct slice entry; /* <url>...</url>\n as fragment_resource makes it; lent
                           until the next call */
};

/* The first resource behind `id`. STATUS_NOT_FOUND: there is none. */
MUST_CHECK enum status resources_next(struct resources *resources, int64_t id,
                                      struct resources_entry *entry,
                                      struct problem *why);

#endif

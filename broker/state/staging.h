/*
 * staging.h - all resources of a set as its source tells them, on their way to
 * being compared with the state: kept on the disk while they arrive.
 *
 *     DIR/NAME.new    is arriving; worthless once the process has ended
 *     DIR/NAME.whole  has arrived, checked and durable
 *     DIR/NAME.taken  its differences are being told: it was accepted
 *
 * The file's name is its state, each step a rename; from .whole on the file
 * does not change. It is a database: of each resource its fragment, as that of
 * a created one, and by key, so that none is told twice.
 *
 *   staged  id (its number in the body, from 1), hole, fragment
 *   keys    key (resource_key of the loc), id
 *   about   the one row of struct staging_about
 *
 * One thread at a time, none that must not wait for a disk.
 */
#ifndef BROKER_STATE_STAGING_H
#define BROKER_STATE_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/change.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

/* A block of resources, in memory. Any thread. */
struct staged_row {
    size_t offset;
    uint32_t size;
    uint32_t hole;
};

struct block {
    struct buf bytes;
    struct staged_row *rows;
    size_t n, capacity;
};

void block_init(struct block *block, size_t max_bytes);
void block_fini(struct block *block);

/* Empties it; keeps its memory. */
void block_clear(struct block *block);

/* STATUS_BUSY: no memory; STATUS_INVALID: the entry is too large. */
MUST_CHECK enum status block_add(struct block *block,
                                 const struct change *change,
                                 struct problem *why);

/* Whose resources they are, and since when. */
struct staging_about {
    char epoch[EPOCH_SIZE + 1]; /* of the set; "": there was none */
    uint64_t after;      /* the last seq when the body began to arrive: what is
                            told of a resource behind it is newer */
    unsigned max_delete; /* percent of the state's resources that may go */
    uint64_t n;          /* resources */
};

struct staging;

/* Begins NAME.new in `dir`, which is made if missing; what there was of that
 * name is thrown away. */
MUST_CHECK enum status staging_begin(struct staging **staging, const char *dir,
                                     const char *name, struct problem *why);

/* Bytes that a block takes on the disk, about. */
uint64_t staging_size(const struct block *block);

/* Adds the resources of a block. STATUS_INVALID: a loc was there already; `why`
 * says which, and in which entry. After an error only staging_discard. */
MUST_CHECK enum status staging_add(struct staging *staging,
                                   const struct block *block,
                                   struct problem *why);

/* It is whole: makes it NAME.whole, durable, with what it is about but `n`,
 * and frees it. After an error only staging_discard. */
MUST_CHECK enum status staging_finish(struct staging *staging,
                                      const struct staging_about *about,
                                      struct problem *why);

/* Takes it off the disk and frees it; NULL is allowed. */
void staging_discard(struct staging *staging);

/* Those that are whole */

/* Calls `fn` for each that a process has left behind, and removes what was not
 * whole. A `dir` that is not there has none. */
MUST_CHECK enum status staging_left(const char *dir,
                                    void (*fn)(const char *name, void *user),
                                    void *user, struct problem *why);

/* Room for "DIR/NAME.SUFFIX". */
#define STAGING_PATH_MAX (4096 + SET_NAME_MAX + 32)

/* Writes the path of the file, and whether it was accepted. STATUS_NOT_FOUND */
MUST_CHECK enum status staging_path(const char *dir, const char *name,
                                    char path[STAGING_PATH_MAX],
                                    bool *is_taken);

/* Makes NAME.whole NAME.taken, durably. */
MUST_CHECK enum status staging_take(const char *dir, const char *name,
                                    struct problem *why);

/* Takes it off the disk, however far it had come. */
void staging_remove(const char *dir, const char *name);

#endif

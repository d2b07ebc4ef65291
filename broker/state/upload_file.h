/*
 * upload_file.h - a source's complete list of resources, on the disk while it
 * arrives, to be compared with the state of its set.
 *
 *     DIR/NAME.new    is arriving; worthless after the end of the process
 *     DIR/NAME.whole  has arrived, checked and durable; its additions and
 *                     updates may be posted while its deletions are held back
 *     DIR/NAME.taken  was accepted: all its differences are being posted
 *
 * The file's name is its state; each step is a rename. From .whole on the file
 * does not change. It is a database with the fragment of each resource, as of a
 * created one, and with the keys, to find duplicates.
 *
 *   staged  id (its number in the body, from 1), hole, fragment
 *   keys    key (resource_key of the loc), id
 *   about   the one row of struct upload_file_about
 *
 * One thread at a time; it must be allowed to wait for a disk.
 */
#pragma once

#include "base/db.h"
#include "base/file.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/position.h"

/* A block of resources, in memory. Any thread. */
struct staged_row {
    size_t offset;
    uint32_t size;
    uint32_t hole;
};

struct block {
    struct buf bytes; /* {.max = MAX} before the first one */
    struct staged_row *rows;
    size_t n, capacity;
};

void block_fini(struct block *block);

/* Empties it; keeps its memory. */
void block_clear(struct block *block);

/* Adds a change. STATUS_BUSY: no memory; STATUS_INVALID: the entry is too
 * large. */
MUST_CHECK enum status block_add(struct block *block,
                                 const struct change *change,
                                 struct problem *why);

/* The set of the resources, and its position. */
struct upload_file_about {
    char epoch[EPOCH_SIZE + 1]; /* of the set; "": it did not exist */
    uint64_t after;      /* the last seq when the body began to arrive: later
                            changes are newer than the body */
    unsigned max_delete; /* percent of the state's resources that may go */
    uint64_t accepted;   /* so many deletions may go in any case */
    uint64_t left_out;   /* rows of the source's list that are missing here */
    uint64_t n;          /* resources */
    char traceparent[TRACEPARENT_SIZE + 1]; /* of the changes; "": none */
};

struct upload_file;

/* Its tables. */
extern const struct db_kind upload_file_kind;

/* Begins NAME.new in `dir`, which it makes if necessary; deletes an older file
 * of that name. */
MUST_CHECK enum status upload_file_begin(struct upload_file **staging,
                                         const char *dir, const char *name,
                                         struct problem *why);

/* About the bytes that a block takes on the disk. */
uint64_t upload_file_size(const struct block *block);

/* Adds the resources of a block. STATUS_INVALID: a loc is repeated; `why` names
 * it and its entry. After an error only upload_file_discard is allowed. */
MUST_CHECK enum status upload_file_add(struct upload_file *staging,
                                       const struct block *block,
                                       struct problem *why);

/* Makes it NAME.whole, durable, with all of `about` but `n`, and frees it.
 * After an error only upload_file_discard is allowed. */
MUST_CHECK enum status upload_file_finish(struct upload_file *staging,
                                          const struct upload_file_about *about,
                                          struct problem *why);

/* Deletes the file, and frees the struct; NULL is allowed. */
void upload_file_discard(struct upload_file *staging);

/* Complete files */

/* Calls `fn` for each complete file that an earlier process has left, and
 * deletes incomplete ones. A missing `dir` has none. */
MUST_CHECK enum status
upload_file_left(const char *dir, void (*fn)(const char *name, void *user),
                 void *user, struct problem *why);

/* Writes the path of the file, and sets *is_taken if it was accepted.
 * STATUS_NOT_FOUND */
MUST_CHECK enum status upload_file_path(const char *dir, const char *name,
                                        struct file_path *path, bool *is_taken);

/* Renames NAME.whole to NAME.taken, durably. */
MUST_CHECK enum status upload_file_take(const char *dir, const char *name,
                                        struct problem *why);

/* Deletes the file in any of its states. */
void upload_file_remove(const char *dir, const char *name);

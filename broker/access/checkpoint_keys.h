/*
 * checkpoint_keys.h - the keys that sign checkpoints of all sets, in
 * DATA/checkpoint.keys.
 *
 *     # The keys of checkpoints; keep them secret, and keep a copy.
 *     nWGxne/9WmC6hEr0kuwsxERJxXN7MmkZcDusAxyuf2A=    a secret in base64, the
 *     TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=    newest first
 *
 * One pair of keys of Ed25519 has a name for each set and epoch: the origin of
 * its checkpoints, HOST/sets/NAME/EPOCH. Each key of the file signs each
 * checkpoint: so a former key vouches for the next one for as long as it stays
 * in the file. And it adds a cosignature, whose time says up to when the
 * checkpoint has all changes.
 *
 * The file is made at the first start, for its owner alone; a backup has it. A
 * broker looks once a second whether it has changed (tidingsd key rotate).
 *
 * In a cluster the text is the only row of a stream, and each broker's file a
 * copy of that: the first broker brings its keys, and so does one whose file
 * has changed while it runs.
 */
#pragma once

#include "broker/cluster/streams.h"
#include "proto/tlog/note.h"

#define CHECKPOINT_KEYS_FILE "checkpoint.keys"

/* The most keys that a file has, and its longest text. */
#define CHECKPOINT_KEYS_MAX  4
#define CHECKPOINT_KEYS_SIZE 512

struct checkpoint_keys;

/* Reads the file of a data directory. `is_made`: a missing one is made. Without
 * one there are no keys. STATUS_INVALID: it has a line that is no key. */
MUST_CHECK enum status checkpoint_keys_open(struct checkpoint_keys **keys,
                                            const char *dir, bool is_made,
                                            struct problem *why);
void checkpoint_keys_close(struct checkpoint_keys *keys); /* NULL is allowed */

/* Puts a new key before the others, in memory and in the file; `is_alone`: the
 * others go. Of no other thread. STATUS_CONFLICT: there are
 * CHECKPOINT_KEYS_MAX. */
MUST_CHECK enum status checkpoint_keys_rotate(struct checkpoint_keys *keys,
                                              bool is_alone,
                                              struct problem *why);

/* Reads the file again if it has changed. A file that cannot be used leaves the
 * keys as they are. Any thread that may wait for the disk. */
MUST_CHECK enum status checkpoint_keys_look(struct checkpoint_keys *keys,
                                            struct problem *why);

/* In a cluster: takes the keys of the others, or brings them its own. The
 * caller has `streams` to itself, and may wait for the network. One thread at a
 * time. After a failure the keys stay as they are. */
MUST_CHECK enum status checkpoint_keys_follow(struct checkpoint_keys *keys,
                                              struct streams *streams,
                                              struct problem *why);

/* Writes the origin of a set's checkpoints. `public_url`: without a slash at
 * its end. */
void checkpoint_origin(char to[NOTE_NAME_SIZE], const char *public_url,
                       const char *set, const char *epoch);

/* Appends the verifier key of that name of each key, a line each, the newest
 * first. */
void checkpoint_keys_write(struct checkpoint_keys *keys, const char *name,
                           struct buf *to);

/* Appends a signed checkpoint, which has all changes up to `time_s`. Any
 * thread. STATUS_BUSY: there is no key. */
MUST_CHECK enum status checkpoint_keys_sign(struct checkpoint_keys *keys,
                                            const struct checkpoint *checkpoint,
                                            uint64_t time_s, struct buf *to,
                                            struct problem *why);

/*
 * tile_files.h - the tiles of a set's tree as files, at the places that C2SP
 * tlog-tiles has for them, so that any web server can serve them.
 *
 *     sets/NAME/tile/0/x001/234       a tile of 256 hashes, which never changes
 *     sets/NAME/tile/0/x001/235.p/17  17 hashes, of the tree whose checkpoint
 *                                     lies beside the closed lists
 *
 * `dir` is the directory of the set everywhere. May block.
 */
#pragma once

#include "broker/log/log.h"
#include "proto/tlog/tree.h"

/* Makes the file, or replaces it. It is on the disk after tile_files_sync. */
MUST_CHECK enum status tile_file_write(const char *dir, unsigned level,
                                       uint64_t number, unsigned width,
                                       const struct digest *hashes,
                                       struct problem *why);

/* Brings all files to the disk, and all else that its file system has: a commit
 * has hundreds, and one after the other they take five times as long. */
MUST_CHECK enum status tile_files_sync(const char *dir, struct problem *why);

/* Reads the file of a tile; NULL `hashes`: looks at it. False: there is none, or
 * it has another size. */
bool tile_file_read(const char *dir, unsigned level, uint64_t number,
                    unsigned width, struct digest *hashes);

/* Deletes it, if it exists. */
void tile_file_remove(const char *dir, unsigned level, uint64_t number,
                      unsigned width);

/* Deletes all. */
MUST_CHECK enum status tile_files_clear(const char *dir, struct problem *why);

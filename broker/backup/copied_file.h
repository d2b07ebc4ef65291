/*
 * copied_file.h - copies of single files, with their digests.
 *
 * A copy keeps the time of its original: a file whose size and time are those
 * of an earlier copy is not copied again (copied_file_is_same). That is right
 * for files that never change, which get their name when they are complete.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* Makes the directories above the file `path`, below the existing `base`. */
MUST_CHECK enum status copied_file_make_dirs(const char *base, const char *path,
                                             struct problem *why);

/* Copies `from` to the new file `to`, which shares the blocks of `from` if the
 * file system can do that, and else the file itself if `may_link`. Sets its
 * digest and size. The caller syncs. STATUS_GONE: `from` cannot be read, there
 * is no copy, and `why` has the reason, without a name; else `why` names `to`.
 */
MUST_CHECK enum status copied_file_make(const char *from, const char *to,
                                        bool may_link, struct digest *digest,
                                        uint64_t *size, struct problem *why);

/* The digest and size of a file. */
MUST_CHECK enum status copied_file_digest(const char *path,
                                          struct digest *digest, uint64_t *size,
                                          struct problem *why);

/* True if `to` has the size and the time of `from`; sets *size. */
bool copied_file_is_same(const char *from, const char *to, uint64_t *size);

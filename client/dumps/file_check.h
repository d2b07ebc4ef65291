/*
 * file_check.h - feeds a file to digests, to check its content.
 */
#ifndef CLIENT_DUMPS_FILE_CHECK_H
#define CLIENT_DUMPS_FILE_CHECK_H

#include <stdint.h>

#include "proto/digest_check.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Feeds the file `name` in `dir_fd` from its first byte; does not follow
 * symbolic links. `limit`: feeds only so many bytes and does not call
 * digest_check_end, so that the caller can feed the bytes after them;
 * UINT64_MAX: feeds all and calls digest_check_end. STATUS_IO: the file cannot
 * be read, or is shorter than `limit`. */
MUST_CHECK enum status digests_file(struct digest_check *digests, int dir_fd,
                                    const char *name, uint64_t limit,
                                    struct problem *why);

#endif

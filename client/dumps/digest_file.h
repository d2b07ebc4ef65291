/*
 * digest_file.h - is what a file holds what the source told of?
 */
#ifndef CLIENT_DUMPS_DIGEST_FILE_H
#define CLIENT_DUMPS_DIGEST_FILE_H

#include <stdint.h>

#include "proto/digests.h"
#include "proto/problem.h"
#include "proto/status.h"

/* The file `name` in `dir_fd`, from its first byte; symbolic links are not
 * followed. `limit`: only so many bytes are fed and digests_end is not called,
 * to go on with the bytes that come after them; UINT64_MAX: all, digests_end
 * included. STATUS_IO: it cannot be read, or is shorter than `limit`. */
MUST_CHECK enum status digests_file(struct digests *digests, int dir_fd,
                                    const char *name, uint64_t limit,
                                    struct problem *why);

#endif

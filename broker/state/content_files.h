/*
 * content_files.h - the bytes that a set keeps, as files named by their
 * SHA-256.
 *
 *     DATA/arriving/N                on its way; emptied at the start
 *     sets/NAME/content/ab/HEX       64 hexadecimal digits, ab the first two
 *
 *     arriving_begin --> arriving_add ... --> arriving_end --> placed
 *                   \                    \               \--> arriving_abandon
 *                    +--------------------+
 *
 * A file has its name only when it is whole and on the disk, so what has a name
 * is what the name says. Placing needs a claim: broker/archive/contents.h.
 *
 * Any thread; all but arriving_abandon of what has ended may block.
 */
#ifndef BROKER_STATE_CONTENT_FILES_H
#define BROKER_STATE_CONTENT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/change.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct digests;

/* Bytes on their way. Ended, it holds no file open: there may be many. */
struct arriving {
    const char *folder; /* lent */
    char name[8];       /* its name there; "": there is no file */
    int fd;             /* -1: ended */
    struct digests *digests;
    uint64_t length;      /* so far */
    struct digest digest; /* SHA-256; once it has ended */
};

/* Begins a file. `hash` (a normalised list; may be empty) and `length` (or
 * LENGTH_NONE) are what was told of the bytes. */
MUST_CHECK enum status arriving_begin(struct arriving *arriving,
                                      const char *folder, struct slice hash,
                                      uint64_t length, struct problem *why);

/* STATUS_INVALID: it is longer than was told. STATUS_BUSY: the disk is full. */
MUST_CHECK enum status arriving_add(struct arriving *arriving,
                                    struct slice bytes, struct problem *why);

/* After the last byte: on the disk when it returns. STATUS_INVALID: they are
 * not the bytes that were told of; `why` says which hash or length differs
 * ("sha-256 is 9f86..., the source told 60303..."). */
MUST_CHECK enum status arriving_end(struct arriving *arriving,
                                    struct problem *why);

/* Takes it off the disk, unless it was placed. Harmless after a begin that
 * failed, and of zeroed memory. */
void arriving_abandon(struct arriving *arriving);

/* Takes what is in the folder off the disk, which is made if it is missing:
 * the start, before anything arrives. */
MUST_CHECK enum status arriving_clear(const char *folder, struct problem *why);

/* What is kept, of the set whose directory is `set_dir` */

/* The folders below content/. */
#define CONTENT_FOLDERS 256

/* Those in which something was placed: a bit each. */
struct content_touched {
    uint8_t bits[CONTENT_FOLDERS / 8];
};

/* Gives bytes that have ended the name that their digest says, in the place of
 * a file that has it: that one may be damaged, they are not. The names are on
 * the disk after content_files_sync. */
MUST_CHECK enum status content_file_place(const char *set_dir,
                                          struct arriving *arriving,
                                          struct problem *why);
void content_touch(struct content_touched *touched,
                   const struct digest *digest);
MUST_CHECK enum status content_files_sync(const char *set_dir,
                                          const struct content_touched *touched,
                                          struct problem *why);

/* Opens the bytes of that name; the caller closes it. STATUS_NOT_FOUND: they
 * are not there. What is open stays readable, whatever becomes of the name. */
MUST_CHECK enum status content_file_open(const char *set_dir,
                                         const struct digest *digest, int *fd,
                                         uint64_t *length, struct problem *why);

/* Are they there? STATUS_NOT_FOUND. */
MUST_CHECK enum status content_file_look(const char *set_dir,
                                         const struct digest *digest,
                                         uint64_t *length, struct problem *why);

/* Takes them off the disk, if they are there. */
MUST_CHECK enum status content_file_unlink(const char *set_dir,
                                           const struct digest *digest,
                                           struct problem *why);

/* Calls `fn` for each file of one of the folders, until it fails. */
MUST_CHECK enum status
content_files_each(const char *set_dir, unsigned folder,
                   enum status (*fn)(const struct digest *digest, void *user,
                                     struct problem *why),
                   void *user, struct problem *why);

#endif

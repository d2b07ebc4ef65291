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
 * A file gets its name when it is complete and on the disk, so a named file has
 * the bytes of its digest. Placing needs a pin: broker/archive/contents.h. With
 * --cluster-bytes s3:// a file is a copy beside its stub, and is fetched when
 * it is opened (broker/bucket/vault.h).
 *
 * Any thread. All functions may block, except arriving_abandon after the end.
 */
#pragma once

#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

/* In a cluster the bytes of an entry travel in its record: so many of one
 * entry, and of all entries of a post (as of config.h). */
#define CONTENT_CARRIED_MAX ((uint64_t)1 << 20)
#define CONTENT_POST_MAX    ((size_t)16 << 20)

struct digest_check;

/* Bytes on their way. After the end it holds no open file: there may be
 * many. */
struct arriving {
    const char *folder; /* lent */
    char name[8];       /* its name in `folder`; "": no file */
    int fd;             /* -1: ended */
    struct digest_check *digests;
    uint64_t length;      /* so far */
    struct digest digest; /* SHA-256, after the end */
};

/* Begins a file. `hash` (a normalised list; may be empty) and `length` (or
 * LENGTH_NONE) are what the source states about the bytes. */
MUST_CHECK enum status arriving_begin(struct arriving *arriving,
                                      const char *folder, struct slice hash,
                                      uint64_t length, struct problem *why);

/* Adds bytes. STATUS_INVALID: more than the source stated. STATUS_BUSY: the
 * disk is full. */
MUST_CHECK enum status arriving_add(struct arriving *arriving,
                                    struct slice bytes, struct problem *why);

/* Ends the file after the last byte: it is on the disk when this returns.
 * STATUS_INVALID: the bytes differ from what the source stated; `why` names the
 * hash or length ("sha-256 is 9f86..., the source announced 60303..."). */
MUST_CHECK enum status arriving_end(struct arriving *arriving,
                                    struct problem *why);

/* Deletes the file unless it was placed. Allowed after a begin that failed, and
 * on zeroed memory. */
void arriving_abandon(struct arriving *arriving);

/* Empties the folder, or makes it. At the start, before anything arrives. */
MUST_CHECK enum status arriving_clear(const char *folder, struct problem *why);

/* The kept bytes of the set whose directory is `set_dir` */

/* The folders below content/. */
#define CONTENT_FOLDERS 256

/* The folders in which a file was placed: a bit each. */
struct content_touched {
    uint8_t bits[CONTENT_FOLDERS / 8];
};

/* Gives bytes after their end the name of their digest. They replace a file
 * with that name, which may be damaged. The names are on the disk after
 * content_files_sync. */
MUST_CHECK enum status content_file_place(const char *set_dir,
                                          struct arriving *arriving,
                                          struct problem *why);
void content_touch(struct content_touched *touched,
                   const struct digest *digest);
MUST_CHECK enum status content_files_sync(const char *set_dir,
                                          const struct content_touched *touched,
                                          struct problem *why);

/* Opens the bytes of that name; the caller closes the file. STATUS_NOT_FOUND:
 * there are none; STATUS_BUSY: the bucket does not give them now. An open file
 * stays readable even if its name is deleted. */
MUST_CHECK enum status content_file_open(const char *set_dir,
                                         const struct digest *digest, int *fd,
                                         uint64_t *length, struct problem *why);

/* Appends the bytes, for a record that carries them to other brokers, if they
 * have that digest. STATUS_NOT_FOUND; STATUS_IO: they are damaged;
 * STATUS_TOO_LARGE: more than CONTENT_CARRIED_MAX, or more than `to` may have.
 */
MUST_CHECK enum status content_file_read(const char *set_dir,
                                         const struct digest *digest,
                                         struct buf *to, struct problem *why);

/* Has the bucket store the bytes, or notes that it has: vault_store. */
MUST_CHECK enum status content_file_store(const char *set_dir,
                                          const struct digest *digest,
                                          uint64_t length, bool is_there,
                                          struct problem *why);

/* Checks that the file exists, and sets *length. STATUS_NOT_FOUND. */
MUST_CHECK enum status content_file_look(const char *set_dir,
                                         const struct digest *digest,
                                         uint64_t *length, struct problem *why);

/* Deletes the file, if it exists. `is_loose`: a row has let it go. */
MUST_CHECK enum status content_file_unlink(const char *set_dir,
                                           const struct digest *digest,
                                           bool is_loose, struct problem *why);

/* Calls `fn` for each file of one of the folders, until it fails. */
typedef enum status content_file_fn(const struct digest *digest, void *user,
                                    struct problem *why);
MUST_CHECK enum status content_files_each(const char *set_dir, unsigned folder,
                                          content_file_fn *fn, void *user,
                                          struct problem *why);

/*
 * vault.h - old files of lists and dumps in a bucket, and the disk as a cache.
 *
 *     sets/NAME/changes/000000000001.xml.gz         the file
 *     sets/NAME/changes/000000000001.xml.gz.bucket  its stub, "DIGEST SIZE":
 *                                                   the bucket has it
 *
 *     file --PUT, HEAD--> file and stub --> stub --GET--> file and stub
 *                              |                              |
 *                              +---------- retention ---------+--> DELETE
 *
 * A file goes from the disk when the bucket has answered that it has it, and
 * the stub is on the disk. A file beside its stub is a copy: it may go at any
 * moment, and does when the copies together are larger than the limit, the
 * oldest lists first, whether the bucket takes new files or not. So a crash at any step leaves nothing to mend. A copy has
 * the time of the file, for the tags of packages depend on it. Files of builds
 * go an hour after they were written, when the build is over.
 *
 * There is one vault in a process, or none: then stubs stay as they are. A
 * thread of its own puts lists, and waits for the bucket as long as it takes.
 * First it tries the bucket with an object of its own, and puts nothing before
 * that comes back. After a failure it pauses, longer each time, up to a minute.
 * Of those that read one fetches and one waits; others get STATUS_BUSY at once,
 * and so do all for half a minute after the bucket did not answer.
 *
 * In a cluster whose bytes are in a bucket, content is such a file, too, but
 * goes there before the record that names it (vault_store):
 *
 *     sets/NAME/content/ab/HEX          a copy
 *     sets/NAME/content/ab/HEX.bucket   its stub
 *
 * Another broker, or another set, may need the object. So it stays when a stub
 * goes, and is swept a day later:
 *
 *     DATA/loose/HEX.bucket  a set here had no row for it any more, since the
 *                            time of this file; or was removed
 *     content/HEX.going      in the bucket: it is just being deleted
 *
 * The thread drops that file when a set here has a stub: it looks at all
 * of them first. A day after the last loss the broker that has the lease
 * "sweep" deletes the object, if all brokers have all records that it had a
 * round before. All brokers fold the same records to the same rows, so no other
 * one has needed the object for as long as they need to fold them. A broker
 * that has lost rows (DATA/loose/lost) does not know what the others need, and
 * deletes nothing. Nor does a stub without a row, after a crash: its object
 * stays.
 *
 * A post stores its bytes also if they are there, which renews their time. It
 * is refused if it meets a deletion: the owner writes HEX.going, asks for the
 * time of HEX, and only then deletes; the post stores HEX, and then asks for
 * HEX.going. One of both sees the other. A post that brings no bytes has a
 * stub, and so its broker a row. A deletion is not repeated, since the bytes of
 * a later post may be there. HEX.going goes last, and a new owner goes on with
 * what another one has begun: it has the same files in DATA/loose.
 */
#pragma once

#include "broker/cluster/streams.h"
#include "proto/buf.h"

struct vault_options {
    const char *data;                  /* the data directory; NULL: no thread */
    const char *address, *credentials; /* bucket.h */
    uint64_t cache_bytes;
    bool may_overwrite; /* likewise */
    bool keeps_lists, keeps_content;
    int64_t local_us; /* the file of a list stays on the disk for so long */
    const struct cluster_seat *seat; /* keeps_content: whose it is */
};

/* The end of a stub's name. */
#define VAULT_STUB ".bucket"

/* Before all that reads, and after it; the texts are lent until then.
 * vault_open asks no server. */
MUST_CHECK enum status vault_open(const struct vault_options *options,
                                  struct problem *why);
void vault_close(void);

/* A set has no content with a stub of that name any more; or (VAULT_LOST) some
 * set has lost its rows, and does not know what others need. Any thread. */
#define VAULT_LOST "lost"
void vault_loosen(const char *stub);

/* True if content goes into the bucket. Any thread. */
bool vault_keeps_content(void);

/* Adds a line of warning if the bucket fails, with its words. Any thread. */
void vault_warn(struct buf *to);

/* Ends all requests soon, and lets no other succeed. Any thread. */
void vault_stop(void);

/* Opens a file, which it fetches if only its stub is there; the caller closes
 * it. STATUS_NOT_FOUND: there is neither. STATUS_BUSY: it cannot be fetched
 * now, or without a vault. Any thread that may block. */
MUST_CHECK enum status vault_file(int dir_fd, const char *name, int *fd,
                                  struct problem *why);

/* The size that the stub of a file names; 0: it has none. */
uint64_t vault_size(int dir_fd, const char *name);

/* Asks whether the bucket has the file of a stub. STATUS_NOT_FOUND: there is no
 * stub. STATUS_BUSY: without a vault. STATUS_DIFFERENT: the bucket has lost it.
 */
MUST_CHECK enum status vault_find(int dir_fd, const char *name,
                                  struct problem *why);

/* The same for all files in a folder and below; then file_clear. */
MUST_CHECK enum status vault_clear(int dir_fd, const char *name,
                                   size_t *n_files, struct problem *why);

/* Stores a file of content under its name, which is its digest, and writes the
 * stub. Writes the stub alone if another broker has stored the file (is_there).
 * Does nothing if there is a stub. May block for as long as the bucket takes.
 */
MUST_CHECK enum status vault_store(int dir_fd, const char *name, uint64_t size,
                                   bool is_there, struct problem *why);

/* Deletes a stub, if there is one, and its object before; that of content is
 * loose. */
MUST_CHECK enum status vault_delete(int dir_fd, const char *name,
                                    struct problem *why);
